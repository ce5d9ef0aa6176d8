// Declares, publishes, consumes, rejects and commits; says what it saw.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	sent     = 100
	patience = 60 * time.Second
)

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	connection := must(amqp.Dial("amqp://guest:guest@127.0.0.1:" + os.Args[1] + "/"))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	channel := must(connection.Channel())
	declare(channel)
	publish(ctx, channel)
	consume(ctx, channel)
	transact(ctx, must(connection.Channel()))
	check(connection.Close())
}

func declare(channel *amqp.Channel) {
	check(channel.ExchangeDeclare("go.logs", "topic", true, false, false, false, nil))
	must(channel.QueueDeclare("go.dead", true, false, false, false, nil))
	arguments := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "go.dead"}
	must(channel.QueueDeclare("go.work", true, false, false, false, arguments))
	check(channel.QueueBind("go.work", "order.*", "go.logs", false, nil))
}

func publish(ctx context.Context, channel *amqp.Channel) {
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	check(channel.Confirm(false))
	confirms := []*amqp.DeferredConfirmation{}
	for number := 0; number < sent; number++ {
		message := amqp.Publishing{
			DeliveryMode: amqp.Persistent,
			Headers:      amqp.Table{"number": int32(number)},
			Body:         []byte(fmt.Sprint(number)),
		}
		key := fmt.Sprintf("order.%d", number)
		confirm := must(
			channel.PublishWithDeferredConfirmWithContext(ctx, "go.logs", key, false, false, message))
		confirms = append(confirms, confirm)
	}
	confirmed := 0
	for _, each := range confirms {
		if must(each.WaitContext(ctx)) {
			confirmed++
		}
	}
	fmt.Println("confirmed", confirmed)
	check(channel.PublishWithContext(ctx, "go.logs", "nobody", true, false, amqp.Publishing{}))
	back := next(ctx, returned)
	fmt.Println("returned", back.ReplyCode, back.ReplyText)
}

func next[T any](ctx context.Context, from <-chan T) T {
	select {
	case value, open := <-from:
		if !open {
			panic("closed")
		}
		return value
	case <-ctx.Done():
		panic(ctx.Err())
	}
}

func consume(ctx context.Context, channel *amqp.Channel) {
	check(channel.Qos(10, 0, false))
	received := must(channel.Consume("go.work", "", false, false, false, false, nil))
	inOrder := 0
	for number := 0; number < sent; number++ {
		each := next(ctx, received)
		key := fmt.Sprintf("order.%d", number)
		if each.Headers["number"] == int32(number) && each.RoutingKey == key {
			inOrder++
		}
		if number%25 == 0 {
			check(each.Nack(false, false))
		} else {
			check(each.Ack(false))
		}
	}
	fmt.Println("consumed in order", inOrder)
	dead := must(channel.Consume("go.dead", "", true, false, false, false, nil))
	fmt.Print("dead")
	for number := 0; number < sent; number += 25 {
		each := next(ctx, dead)
		death := each.Headers["x-death"].([]interface{})[0].(amqp.Table)
		fmt.Printf(" %s:%s", each.Body, death["reason"])
	}
	fmt.Println()
	queue := must(channel.QueueDeclarePassive("go.work", true, false, false, false, nil))
	fmt.Println("left", queue.Messages)
}

func transact(ctx context.Context, channel *amqp.Channel) {
	must(channel.QueueDeclare("go.tx", true, false, false, false, nil))
	check(channel.Tx())
	never := amqp.Publishing{Body: []byte("never")}
	check(channel.PublishWithContext(ctx, "", "go.tx", false, false, never))
	check(channel.TxRollback())
	committed := amqp.Publishing{Body: []byte("committed")}
	check(channel.PublishWithContext(ctx, "", "go.tx", false, false, committed))
	check(channel.TxCommit())
	first, found, err := channel.Get("go.tx", true)
	check(err)
	if !found {
		panic("the transaction is not there")
	}
	fmt.Println("transaction", string(first.Body))
	_, more, err := channel.Get("go.tx", true)
	check(err)
	fmt.Println("then", map[bool]string{false: "nothing", true: "more"}[more])
}
