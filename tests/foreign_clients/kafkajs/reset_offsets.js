// A group reads a topic, is reset by the admin, and reads it again: reset_offsets.js ADDRESS TOPIC
const { Kafka, logLevel } = require('kafkajs')

const [address, topic] = process.argv.slice(2)
const groupId = `${topic}.readers`
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR })

async function read(count) {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer
      .run({
        eachMessage: async ({ message }) => {
          found.push(message.value.toString())
          if (found.length === count) resolve()
        },
      })
      .catch(reject)
  })
  // Stopping commits what was read.
  await consumer.stop()
  await consumer.disconnect()
  return found.join(' ')
}

async function committed(admin) {
  const [found] = await admin.fetchOffsets({ groupId, topics: [topic] })
  return found.partitions.map(each => each.offset).join(' ')
}

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1 }] })
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: ['a', 'b', 'c'].map(value => ({ value })) })
  await producer.disconnect()

  console.log(await read(3), 'then', await committed(admin))
  await admin.resetOffsets({ groupId, topic, earliest: true })
  console.log('earliest', await committed(admin))
  console.log(await read(3), 'then', await committed(admin))
  await admin.resetOffsets({ groupId, topic, earliest: false })
  console.log('latest', await committed(admin))
  await admin.disconnect()
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
