// Declares, publishes, consumes and rejects; says what it saw.
const amqp = require("amqplib");

const SENT = 100;

async function declare(channel) {
  await channel.assertExchange("node.logs", "topic", { durable: true });
  await channel.assertQueue("node.dead", { durable: true });
  const dead = { deadLetterExchange: "", deadLetterRoutingKey: "node.dead" };
  await channel.assertQueue("node.work", { durable: true, ...dead });
  await channel.bindQueue("node.work", "node.logs", "order.*");
}

async function publish(channel) {
  for (let number = 0; number < SENT; number++) {
    const options = { persistent: true, headers: { number } };
    channel.publish("node.logs", `order.${number}`, Buffer.from(`${number}`), options);
  }
  await channel.waitForConfirms();
  console.log(`confirmed ${SENT}`);
  const returned = new Promise((resolve) => channel.once("return", resolve));
  channel.publish("node.logs", "nobody", Buffer.from(""), { mandatory: true });
  const { replyCode, replyText } = (await returned).fields;
  console.log(`returned ${replyCode} ${replyText}`);
}

// Calls handle with each message and its number, until so many came.
function received(channel, queue, count, options, handle) {
  return new Promise((resolve, reject) => {
    let number = 0;
    const take = (message) => {
      handle(message, number++);
      if (number === count) resolve();
    };
    channel.consume(queue, take, options).catch(reject);
  });
}

async function consume(channel) {
  let inOrder = 0;
  await channel.prefetch(10);
  await received(channel, "node.work", SENT, {}, (message, number) => {
    const { properties, fields } = message;
    if (properties.headers.number === number && fields.routingKey === `order.${number}`) inOrder++;
    if (number % 25 === 0) channel.nack(message, false, false);
    else channel.ack(message);
  });
  console.log(`consumed in order ${inOrder}`);
  const dead = [];
  await received(channel, "node.dead", SENT / 25, { noAck: true }, (message) => {
    dead.push(`${message.content}:${message.properties.headers["x-death"][0].reason}`);
  });
  console.log(`dead ${dead.join(" ")}`);
  console.log(`left ${(await channel.checkQueue("node.work")).messageCount}`);
}

async function main() {
  const connection = await amqp.connect(`amqp://127.0.0.1:${process.argv[2]}`);
  const channel = await connection.createConfirmChannel();
  await declare(channel);
  await publish(channel);
  await consume(channel);
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
