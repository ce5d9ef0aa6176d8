import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/** Declares, publishes, consumes, rejects and commits; says what it saw. */
public final class AmqpRound {
    private static final int SENT = 100;
    private static final long PATIENCE_MS = 60_000;

    public static void main(String[] args) throws Exception {
        ConnectionFactory factory = new ConnectionFactory();
        factory.setHost("127.0.0.1");
        factory.setPort(Integer.parseInt(args[0]));
        try (Connection connection = factory.newConnection()) {
            Channel channel = connection.createChannel();
            declare(channel);
            publish(channel);
            consume(channel);
            transact(connection.createChannel());
        }
    }

    private static void declare(Channel channel) throws Exception {
        channel.exchangeDeclare("java.logs", "topic", true);
        channel.queueDeclare("java.dead", true, false, false, null);
        Map<String, Object> arguments =
                Map.of("x-dead-letter-exchange", "", "x-dead-letter-routing-key", "java.dead");
        channel.queueDeclare("java.work", true, false, false, arguments);
        channel.queueBind("java.work", "java.logs", "order.*");
    }

    private static void publish(Channel channel) throws Exception {
        BlockingQueue<String> returned = new ArrayBlockingQueue<>(1);
        channel.addReturnListener(
                message ->
                        returned.add(message.getReplyCode() + " " + message.getReplyText()));
        channel.confirmSelect();
        for (int number = 0; number < SENT; number++) {
            AMQP.BasicProperties properties =
                    MessageProperties.PERSISTENT_BASIC.builder()
                            .headers(Map.of("number", number))
                            .build();
            byte[] body = Integer.toString(number).getBytes();
            channel.basicPublish("java.logs", "order." + number, properties, body);
        }
        channel.waitForConfirmsOrDie(PATIENCE_MS);
        System.out.println("confirmed " + SENT);
        channel.basicPublish("java.logs", "nobody", true, null, new byte[0]);
        channel.waitForConfirmsOrDie(PATIENCE_MS);
        System.out.println("returned " + returned.poll(PATIENCE_MS, TimeUnit.MILLISECONDS));
    }

    private static void consume(Channel channel) throws Exception {
        BlockingQueue<Delivery> received = new ArrayBlockingQueue<>(SENT);
        channel.basicQos(10);
        channel.basicConsume("java.work", false, (tag, each) -> received.add(each), tag -> {});
        int inOrder = 0;
        for (int number = 0; number < SENT; number++) {
            Delivery each = received.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            Object header = each.getProperties().getHeaders().get("number");
            String key = each.getEnvelope().getRoutingKey();
            if (header.equals(number) && key.equals("order." + number)) {
                inOrder++;
            }
            long tag = each.getEnvelope().getDeliveryTag();
            if (number % 25 == 0) {
                channel.basicNack(tag, false, false);
            } else {
                channel.basicAck(tag, false);
            }
        }
        System.out.println("consumed in order " + inOrder);
        channel.basicConsume("java.dead", true, (tag, each) -> received.add(each), tag -> {});
        StringJoiner dead = new StringJoiner(" ", "dead ", "");
        for (int number = 0; number < SENT; number += 25) {
            Delivery each = received.poll(PATIENCE_MS, TimeUnit.MILLISECONDS);
            List<?> deaths = (List<?>) each.getProperties().getHeaders().get("x-death");
            Object reason = ((Map<?, ?>) deaths.get(0)).get("reason");
            dead.add(new String(each.getBody()) + ":" + reason);
        }
        System.out.println(dead);
        System.out.println("left " + channel.queueDeclarePassive("java.work").getMessageCount());
    }

    private static void transact(Channel channel) throws Exception {
        channel.queueDeclare("java.tx", true, false, false, null);
        channel.txSelect();
        channel.basicPublish("", "java.tx", null, "never".getBytes());
        channel.txRollback();
        channel.basicPublish("", "java.tx", null, "committed".getBytes());
        channel.txCommit();
        GetResponse first = channel.basicGet("java.tx", true);
        System.out.println("transaction " + new String(first.getBody()));
        System.out.println("then " + (channel.basicGet("java.tx", true) == null ? "nothing" : "more"));
    }
}
