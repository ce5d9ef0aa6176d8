/* One AMQP 0-9-1 client that does one job and prints one line of JSON; on librabbitmq.
 *
 *   load PORT declare NAME QUEUES
 *   load PORT delete  NAME QUEUES
 *   load PORT publish NAME QUEUES COUNT BYTES MODE WINDOW
 *   load PORT consume NAME QUEUES COUNT PREFETCH
 *   load PORT pace    NAME COUNT BYTES MODE PREFETCH RATE
 *
 * The queues are durable and called NAME-0, NAME-1, ... MODE is the delivery mode: 1 transient,
 * 2 persistent. "publish" goes round the queues, with at most WINDOW messages unconfirmed, and
 * ends with the last confirm. "consume" has a consumer with PREFETCH on each queue, acknowledges
 * every message by itself, and ends when the server has answered a request that follows the last
 * acknowledgement. "pace" publishes RATE messages per second from a process of its own to a
 * consumer here, and prints how old the messages were. Time to connect is not counted.
 */

#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHANNEL = 1, FRAME_MAX = 131072, PATIENCE_S = 120 };

static amqp_connection_state_t server;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why) {
  fprintf(stderr, "load: %s: %s\n", what, why);
  exit(1);
}

static void check_status(const char *what, int status) {
  if (status < 0) fail(what, amqp_error_string2(status));
}

static void check_reply(const char *what, amqp_rpc_reply_t reply) {
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
    fail(what, amqp_error_string2(reply.library_error));
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) fail(what, "the server refused it");
}

static void check(const char *what) { check_reply(what, amqp_get_rpc_reply(server)); }

static void open_connection(int port) {
  server = amqp_new_connection();
  amqp_socket_t *socket = amqp_tcp_socket_new(server);
  check_status("connect", amqp_socket_open(socket, "127.0.0.1", port));
  check_reply("login", amqp_login(server, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, "guest",
                                  "guest"));
  amqp_channel_open(server, CHANNEL);
  check("channel.open");
}

static void close_connection(void) {
  amqp_connection_close(server, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(server);
}

/* The names of queues, made once: the client is part of what is measured. */
static amqp_bytes_t *queue_names(const char *name, long count) {
  amqp_bytes_t *names = calloc(count, sizeof *names);
  for (long at = 0; at < count; at++) {
    char text[256];
    snprintf(text, sizeof text, "%s-%ld", name, at);
    names[at] = amqp_bytes_malloc_dup(amqp_cstring_bytes(text));
  }
  return names;
}

static void declare(amqp_bytes_t queue, int passive) {
  amqp_queue_declare(server, CHANNEL, queue, passive, 1, 0, 0, amqp_empty_table);
  check("queue.declare");
}

static amqp_basic_properties_t properties_of(int mode) {
  amqp_basic_properties_t properties;
  memset(&properties, 0, sizeof properties);
  properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
  properties.content_type = amqp_cstring_bytes("application/octet-stream");
  properties.delivery_mode = mode;
  return properties;
}

static void publish_one(amqp_bytes_t queue, const amqp_basic_properties_t *properties,
                        amqp_bytes_t body) {
  check_status("basic.publish", amqp_basic_publish(server, CHANNEL, amqp_empty_bytes, queue, 0, 0,
                                                   properties, body));
}

/* Publisher confirms: a server may confirm in any order, and many tags at once. */
static char *confirmed;
static uint64_t all_before = 1; /* every tag below this one is confirmed */
static long confirmed_count;

static void confirm_tag(uint64_t tag) {
  if (confirmed[tag]) return;
  confirmed[tag] = 1;
  confirmed_count++;
}

static void wait_for_confirm(void) {
  amqp_frame_t frame;
  check_status("waiting for confirms", amqp_simple_wait_frame(server, &frame));
  if (frame.frame_type != AMQP_FRAME_METHOD) return;
  if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
    fail("waiting for confirms", "basic.nack, or the channel was closed");
  amqp_basic_ack_t *ack = frame.payload.method.decoded;
  if (ack->multiple)
    for (uint64_t tag = all_before; tag <= ack->delivery_tag; tag++) confirm_tag(tag);
  else
    confirm_tag(ack->delivery_tag);
  while (confirmed[all_before]) all_before++;
  amqp_maybe_release_buffers(server);
}

static void publish(const char *name, long queues, long count, size_t size, int mode,
                    long window) {
  amqp_bytes_t *names = queue_names(name, queues);
  amqp_basic_properties_t properties = properties_of(mode);
  amqp_bytes_t body = {size, calloc(size, 1)};
  confirmed = calloc(count + 2, 1);
  amqp_confirm_select(server, CHANNEL);
  check("confirm.select");
  double began = now_s();
  for (long sent = 0; sent < count; sent++) {
    while (sent - confirmed_count >= window) wait_for_confirm();
    publish_one(names[sent % queues], &properties, body);
  }
  while (confirmed_count < count) wait_for_confirm();
  printf("{\"seconds\": %.6f}\n", now_s() - began);
}

static void begin_consuming(amqp_bytes_t *names, long queues, int prefetch) {
  amqp_basic_qos(server, CHANNEL, 0, prefetch, 0);
  check("basic.qos");
  for (long at = 0; at < queues; at++) {
    amqp_basic_consume(server, CHANNEL, names[at], amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    check("basic.consume");
  }
}

static void next_message(amqp_envelope_t *message) {
  struct timeval patience = {PATIENCE_S, 0};
  amqp_maybe_release_buffers(server);
  check_reply("waiting for a message", amqp_consume_message(server, message, &patience, 0));
}

static void acknowledge(amqp_envelope_t *message) {
  check_status("basic.ack", amqp_basic_ack(server, CHANNEL, message->delivery_tag, 0));
  amqp_destroy_envelope(message);
}

static void consume(const char *name, long queues, long count, int prefetch) {
  amqp_bytes_t *names = queue_names(name, queues);
  double began = now_s();
  begin_consuming(names, queues, prefetch);
  for (long got = 0; got < count; got++) {
    amqp_envelope_t message;
    next_message(&message);
    acknowledge(&message);
  }
  declare(names[0], 1);
  printf("{\"seconds\": %.6f}\n", now_s() - began);
}

static void publish_at_rate(int port, amqp_bytes_t queue, long count, size_t size, int mode,
                            double rate) {
  open_connection(port);
  amqp_basic_properties_t properties = properties_of(mode);
  amqp_bytes_t body = {size, calloc(size, 1)};
  double began = now_s();
  for (long sent = 0; sent < count; sent++) {
    double ahead = began + sent / rate - now_s();
    if (ahead > 0) {
      struct timespec rest = {(time_t)ahead, (long)((ahead - (time_t)ahead) * 1e9)};
      nanosleep(&rest, NULL);
    }
    double written = now_s();
    memcpy(body.bytes, &written, sizeof written);
    publish_one(queue, &properties, body);
  }
  close_connection();
}

static int by_value(const void *one, const void *other) {
  double left = *(const double *)one, right = *(const double *)other;
  return (left > right) - (left < right);
}

static void pace(int port, const char *name, long count, size_t size, int mode, int prefetch,
                 double rate) {
  amqp_bytes_t *names = queue_names(name, 1);
  begin_consuming(names, 1, prefetch);
  pid_t publisher = fork();
  if (publisher == 0) {
    publish_at_rate(port, names[0], count, size, mode, rate);
    _exit(0);
  }
  double *ages_us = calloc(count, sizeof *ages_us);
  for (long got = 0; got < count; got++) {
    amqp_envelope_t message;
    next_message(&message);
    double written;
    memcpy(&written, message.message.body.bytes, sizeof written);
    ages_us[got] = (now_s() - written) * 1e6;
    acknowledge(&message);
  }
  int status = 0;
  waitpid(publisher, &status, 0);
  if (status != 0) fail("pace", "the publisher has failed");
  qsort(ages_us, count, sizeof *ages_us, by_value);
  printf("{\"p50_us\": %.1f, \"p99_us\": %.1f, \"highest_us\": %.1f}\n", ages_us[count / 2],
         ages_us[count * 99 / 100], ages_us[count - 1]);
}

int main(int given, char **words) {
  if (given < 5) fail("usage", "see the top of load.c");
  int port = atoi(words[1]);
  const char *job = words[2], *name = words[3];
  long number[6] = {0};
  for (int at = 4; at < given && at < 10; at++) number[at - 4] = atol(words[at]);
  open_connection(port);
  if (!strcmp(job, "declare") && given == 5) {
    amqp_bytes_t *names = queue_names(name, number[0]);
    for (long at = 0; at < number[0]; at++) declare(names[at], 0);
    printf("{}\n");
  } else if (!strcmp(job, "delete") && given == 5) {
    amqp_bytes_t *names = queue_names(name, number[0]);
    for (long at = 0; at < number[0]; at++) {
      amqp_queue_delete(server, CHANNEL, names[at], 0, 0);
      check("queue.delete");
    }
    printf("{}\n");
  } else if (!strcmp(job, "publish") && given == 9) {
    publish(name, number[0], number[1], number[2], number[3], number[4]);
  } else if (!strcmp(job, "consume") && given == 7) {
    consume(name, number[0], number[1], number[2]);
  } else if (!strcmp(job, "pace") && given == 9) {
    pace(port, name, number[0], number[1], number[2], number[3], number[4]);
  } else {
    fail("usage", "see the top of load.c");
  }
  close_connection();
  return 0;
}
