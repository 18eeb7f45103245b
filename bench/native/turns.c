// Several servers under the same closed-loop load, one after the other in turns of some milliseconds, and the CPU that each used per
// request in each turn. Neighbouring turns see the same machine, so that their ratio holds still where a second is too long.
// Not an HTTP client: every answer of a server must be as long as its first.
//
// usage: turns http|fcgi TARGET ROUNDS TURN_MS DEPTH CONNECTIONS PID ADDRESS [PID ADDRESS ...]
//        DEPTH: requests that a connection sends at once; ADDRESS: unix:PATH or IPv4:PORT
// prints a JSON array for each server: microseconds per request, round by round
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "client.h"

enum { WARM_UP_ROUNDS = 40, WARM_UP_TURN = 5 /* turns long */, SERVERS_MAX = 8, CONNECTIONS_MAX = 256, SETTLE_US = 300000 };

typedef struct {
  clockid_t clock;              // CPU time of all its threads: clock_getcpuclockid(3)
  int fds[CONNECTIONS_MAX];
  double *used;
  int answer_size;
} Server;

static char *batch, answers[1 << 20];
static int batch_size, depth, connections;

static double seconds(clockid_t clock) {
  struct timespec t;
  if (clock_gettime(clock, &t)) die("clock_gettime");
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void ask(int fd, const char *bytes, int size) {
  if (send(fd, bytes, size, 0) != size) die("send");
}

// How long one answer is.
static void measure_answer(Server *server) {
  ask(server->fds[0], request, request_size);
  usleep(SETTLE_US);
  server->answer_size = recv(server->fds[0], answers, sizeof answers, 0);
  if (server->answer_size <= 0) die("recv");
}

// Microseconds of CPU per request.
static double turn(Server *server, double length) {
  struct pollfd polled[CONNECTIONS_MAX];
  long missing[CONNECTIONS_MAX], done = 0;
  double end = seconds(CLOCK_MONOTONIC) + length, before = seconds(server->clock);
  for (int i = 0; i < connections; i++) {
    polled[i] = (struct pollfd){server->fds[i], POLLIN, 0};
    missing[i] = (long)depth * server->answer_size;
    ask(server->fds[i], batch, batch_size);
  }
  for (int live = connections, over = 0; live;) {
    if (poll(polled, connections, 10000) <= 0) { fprintf(stderr, "no answer in 10 s\n"); exit(1); }
    for (int i = 0; i < connections; i++) {
      if (!polled[i].revents) continue;
      int size = recv(polled[i].fd, answers, sizeof answers, 0);
      if (size <= 0) die("recv");
      missing[i] -= size;
      if (missing[i] < 0) { fprintf(stderr, "an answer is longer than the first\n"); exit(1); }
      if (missing[i]) continue;
      done += depth;
      over |= seconds(CLOCK_MONOTONIC) > end;
      if (over) {
        polled[i].fd = -1;
        live--;
      } else {
        missing[i] = (long)depth * server->answer_size;
        ask(polled[i].fd, batch, batch_size);
      }
    }
  }
  return (seconds(server->clock) - before) * 1e6 / done;
}

int main(int argc, char **argv) {
  static Server servers[SERVERS_MAX];
  int count = (argc - 7) / 2;
  if (argc < 9 || argc % 2 == 0 || count > SERVERS_MAX) {
    fprintf(stderr, "usage: turns http|fcgi TARGET ROUNDS TURN_MS DEPTH CONNECTIONS PID ADDRESS [PID ADDRESS ...]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  build_request(!strcmp(argv[1], "fcgi"), argv[2]);
  int rounds = atoi(argv[3]);
  double length = atof(argv[4]) / 1000;
  depth = atoi(argv[5]);
  connections = atoi(argv[6]);
  if (rounds < 1 || length <= 0 || depth < 1 || connections < 1 || connections > CONNECTIONS_MAX) { fprintf(stderr, "a number is out of range\n"); return 2; }
  batch_size = depth * request_size;
  batch = malloc(batch_size);
  for (int i = 0; i < depth; i++) memcpy(batch + i * request_size, request, request_size);
  for (int i = 0; i < count; i++) {
    servers[i].clock = (~(clockid_t)atoi(argv[7 + 2 * i])) << 3 | 2;
    servers[i].used = calloc(rounds, sizeof(double));
    for (int k = 0; k < connections; k++) servers[i].fds[k] = connect_to(argv[8 + 2 * i]);
    measure_answer(servers + i);
  }

  // The order changes with each round: none is always the one that comes after a pause.
  for (int round = -WARM_UP_ROUNDS; round < rounds; round++) {
    for (int k = 0; k < count; k++) {
      Server *server = servers + (round & 1 ? count - 1 - k : k);
      double used = turn(server, round < 0 ? WARM_UP_TURN * length : length);
      if (round >= 0) server->used[round] = used;
    }
  }
  printf("[");
  for (int i = 0; i < count; i++) {
    printf("%s[", i ? "," : "");
    for (int round = 0; round < rounds; round++) printf("%s%.4f", round ? "," : "", servers[i].used[round]);
    printf("]");
  }
  printf("]\n");
  return 0;
}
