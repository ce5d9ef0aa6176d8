/* Sends counters by UDP at a rate, ten names in turn, and prints how many in how many seconds.

   statsd_sender PORT PACKETS_PER_SECOND SECONDS      (0 packets per second: as many as it can) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { NAMES = 10, AT_ONCE = 20 };

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    double rate = atof(words[2]), seconds = atof(words[3]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int out = socket(AF_INET, SOCK_DGRAM, 0);
    if (out < 0 || connect(out, (struct sockaddr *)&to, sizeof to))
        return 1;

    char lines[NAMES][32];
    struct iovec parts[AT_ONCE];
    struct mmsghdr packets[AT_ONCE];
    memset(packets, 0, sizeof packets);
    for (int each = 0; each < AT_ONCE; each++) {
        char *line = lines[each % NAMES];
        parts[each].iov_base = line;
        parts[each].iov_len = snprintf(line, sizeof lines[0], "app.requests%d:1|c", each % NAMES);
        packets[each].msg_hdr.msg_iov = &parts[each];
        packets[each].msg_hdr.msg_iovlen = 1;
    }

    long sent = 0;
    double began = now(), passed;
    while ((passed = now() - began) < seconds) {
        if (rate > 0 && sent + AT_ONCE > passed * rate) {
            struct timespec little = {.tv_nsec = 100000};
            nanosleep(&little, NULL);
            continue;
        }
        int taken = sendmmsg(out, packets, AT_ONCE, 0);
        if (taken != AT_ONCE) {
            perror("sendmmsg");
            return 1;
        }
        sent += taken;
    }
    printf("%ld %.3f\n", sent, now() - began);
    return 0;
}
