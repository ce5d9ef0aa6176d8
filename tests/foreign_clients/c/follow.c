/* Follows a topic through a server's ZeroMQ sockets: all since offset 0, then live, each event once.

   follow HOST REPLAY_PORT TOPIC COUNT: prints the values of COUNT events of partition 0. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define DETAILS 29
#define MAX_FRAME 65536
#define ANSWER_MS 500

static void *context, *replay, *live;
static uint64_t next_offset;
static long left;
static char frame[MAX_FRAME + 1];

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
    exit(1);
}

static int receive(void *socket) {
    int size = zmq_recv(socket, frame, MAX_FRAME, 0);
    if (size < 0 && zmq_errno() == EAGAIN)
        return -1;
    if (size < 0 || size > MAX_FRAME)
        fail("receive");
    frame[size] = 0;
    return size;
}

static int has_more(void *socket) {
    int more;
    size_t size = sizeof more;
    zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    return more;
}

static uint64_t number_at(const char *bytes) {
    uint64_t found = 0;
    for (int i = 0; i < 8; i++)
        found = found << 8 | (unsigned char)bytes[i];
    return found;
}

/* Takes the three frames of an event; says whether events are missing before it. */
static int take_event(void *socket) {
    static char value[MAX_FRAME + 1];
    receive(socket); /* the subject */
    receive(socket);
    strcpy(value, frame);
    if (receive(socket) < DETAILS)
        fail("details");
    uint64_t offset = number_at(frame + 4), after = number_at(frame + 12);
    if (offset < next_offset)
        return 0;
    if (after > next_offset)
        return 1;
    if (left > 0) {
        puts(value);
        left--;
    }
    next_offset = offset + 1;
    return 0;
}

/* Sends a request until it is answered, as a connection may end before; reads the first frame. */
static void ask(const char *kind, const char *topic, const char *offset) {
    do {
        zmq_send(replay, kind, strlen(kind), ZMQ_SNDMORE);
        zmq_send(replay, topic, strlen(topic), offset ? ZMQ_SNDMORE : 0);
        if (offset) {
            zmq_send(replay, "0", 1, ZMQ_SNDMORE);
            zmq_send(replay, offset, strlen(offset), 0);
        }
    } while (receive(replay) < 0);
}

/* Asks for events until there are no more. */
static void catch_up(const char *topic) {
    uint64_t tail = next_offset + 1;
    while (next_offset < tail && left > 0) {
        char offset[24];
        snprintf(offset, sizeof offset, "%llu", (unsigned long long)next_offset);
        ask("REPLAY", topic, offset);
        if (strcmp(frame, "EVENTS"))
            fail("the server refuses");
        receive(replay); /* topic */
        receive(replay); /* partition */
        receive(replay); /* first */
        receive(replay);
        uint64_t following = strtoull(frame, NULL, 10);
        receive(replay);
        tail = strtoull(frame, NULL, 10);
        while (has_more(replay))
            take_event(replay);
        if (following > next_offset)
            next_offset = following;
    }
}

int main(int argc, char **argv) {
    char address[100], prefix[300];
    if (argc != 5)
        return 2;
    const char *host = argv[1], *topic = argv[3];
    left = atol(argv[4]);
    setlinebuf(stdout);
    context = zmq_ctx_new();
    replay = zmq_socket(context, ZMQ_REQ);
    live = zmq_socket(context, ZMQ_SUB);
    int on = 1, answer_ms = ANSWER_MS;
    zmq_setsockopt(replay, ZMQ_REQ_RELAXED, &on, sizeof on);
    zmq_setsockopt(replay, ZMQ_REQ_CORRELATE, &on, sizeof on);
    zmq_setsockopt(replay, ZMQ_RCVTIMEO, &answer_ms, sizeof answer_ms);
    snprintf(address, sizeof address, "tcp://%s:%.5s", host, argv[2]);
    if (zmq_connect(replay, address))
        fail(address);
    ask("BOUNDS", topic, NULL);
    receive(replay); /* topic */
    receive(replay);
    snprintf(address, sizeof address, "tcp://%s:%.5s", host, frame);
    while (has_more(replay))
        receive(replay);
    snprintf(prefix, sizeof prefix, "%s/", topic);
    zmq_setsockopt(live, ZMQ_SUBSCRIBE, prefix, strlen(prefix));
    if (zmq_connect(live, address))
        fail(address);
    catch_up(topic);
    fprintf(stderr, "caught up\n");
    while (left > 0) {
        zmq_pollitem_t item = {live, 0, ZMQ_POLLIN, 0};
        /* Nothing for a moment: what was lost last shows only in the log. */
        if (zmq_poll(&item, 1, 200) == 0 || take_event(live))
            catch_up(topic);
    }
    fflush(stdout);
    zmq_close(live);
    zmq_close(replay);
    zmq_ctx_term(context);
    return 0;
}
