// An open-loop load: GET requests that fall due at a fixed rate, whether or not the earlier ones were answered.
// Latency counts from the moment a request fell due, so a server that stalls is charged for everything that piled up behind it.
// Not a load maximiser (wrk is), and not an HTTP client: it looks only for the end of each answer.
//
// usage: pace http|fcgi unix:PATH|IPv4:PORT TARGET REQUESTS_PER_SECOND SECONDS CONNECTIONS
// REQUESTS_PER_SECOND 0: each connection asks again as soon as it is answered
// prints one JSON object: sent, done, errors, and p50, p99, p999, max in milliseconds
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include "client.h"

enum { END_REQUEST = 3, DRAIN_SECONDS = 3 };

typedef struct {
  int fd;
  int64_t due;             // ns; when the request in flight fell due, 0 while the connection is free
  int filled;
  unsigned char in[16 * 1024];
} Connection;

static int fcgi;
static const char *address;
static int epoll;
static Connection **idle;   // ring of free connections: they take turns
static int idle_size, idle_head, idle_count;
static int64_t *latency;    // ns
static int64_t done, errors;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void put_idle(Connection *c) { idle[(idle_head + idle_count++) % idle_size] = c; }

static Connection *take_idle(void) {
  Connection *c = idle[idle_head];
  idle_head = (idle_head + 1) % idle_size;
  idle_count--;
  return c;
}

static void open_connection(Connection *c) {
  c->fd = connect_to(address);
  fcntl(c->fd, F_SETFL, O_NONBLOCK);
  c->due = 0;
  c->filled = 0;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
  put_idle(c);
}

// The size of the whole answer at the start of the buffer, or 0 while it is incomplete. `good` says whether it is a 200.
static int answer_size(Connection *c, int *good) {
  if (fcgi) {
    *good = !memcmp(c->in + HEADER_SIZE, "Status: 200", 11);
    for (int at = 0; c->filled - at >= HEADER_SIZE;) {
      unsigned char *h = c->in + at;
      at += HEADER_SIZE + (h[4] << 8 | h[5]) + h[6];
      if (h[1] == END_REQUEST) return c->filled >= at ? at : 0;
    }
    return 0;
  }
  unsigned char *end = memmem(c->in, c->filled, "\r\n\r\n", 4);
  if (!end) return 0;
  int head = end + 4 - c->in;
  *end = 0;
  *good = !strncmp((char *)c->in, "HTTP/1.1 200", 12);
  char *length = strcasestr((char *)c->in, "\r\nContent-Length:");
  *end = '\r';
  if (length) return c->filled >= head + atoi(length + 17) ? head + atoi(length + 17) : 0;
  unsigned char *last = memmem(c->in + head, c->filled - head, "0\r\n\r\n", 5); // chunked, with a body of text
  return last ? last + 5 - c->in : 0;
}

static void reopen(Connection *c) {
  errors++;
  close(c->fd);
  open_connection(c);
}

static void receive(Connection *c) {
  int n = read(c->fd, c->in + c->filled, sizeof c->in - c->filled), good = 0;
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    if (!c->due) { fprintf(stderr, "the server closed an idle connection\n"); exit(1); }
    reopen(c);
    return;
  }
  c->filled += n;
  if (!answer_size(c, &good)) return;
  if (good) latency[done++] = now() - c->due; else errors++;
  c->due = 0;
  c->filled = 0;
  put_idle(c);
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double percentile(double share) {
  return done ? latency[(int64_t)((done - 1) * share)] / 1e6 : 0;
}

int main(int argc, char **argv) {
  if (argc != 7) { fprintf(stderr, "usage: pace http|fcgi ADDRESS TARGET REQUESTS_PER_SECOND SECONDS CONNECTIONS\n"); return 2; }
  fcgi = !strcmp(argv[1], "fcgi");
  address = argv[2];
  build_request(fcgi, argv[3]);
  double rate = atof(argv[4]), seconds = atof(argv[5]);
  int connections = idle_size = atoi(argv[6]);
  int closed = rate == 0;
  int64_t total = (closed ? 1e6 : rate) * seconds, sent = 0;
  signal(SIGPIPE, SIG_IGN);
  epoll = epoll_create1(0);
  idle = calloc(connections, sizeof *idle);
  latency = calloc(total + 1, sizeof *latency);
  Connection *all = calloc(connections, sizeof *all);
  for (int i = 0; i < connections; i++) open_connection(all + i);

  struct epoll_event events[512];
  int64_t start = now(), deadline = start + (seconds + DRAIN_SECONDS) * 1e9;
  while (done + errors < total) {
    int64_t t = now();
    if (t > deadline) break;
    if (closed && t > start + seconds * 1e9) total = sent;
    int64_t next = closed ? t : start + (int64_t)(sent / rate * 1e9);
    while (sent < total && next <= t && idle_count) {
      Connection *c = take_idle();
      c->due = next;
      if (write(c->fd, request, request_size) != request_size) reopen(c);
      sent++;
      if (!closed) next = start + (int64_t)(sent / rate * 1e9);
    }
    int64_t wait = sent < total && idle_count ? next - t : 100000000;
    struct timespec timeout = {.tv_nsec = wait < 0 ? 0 : wait > 100000000 ? 100000000 : wait};
    int n = epoll_pwait2(epoll, events, 512, &timeout, 0);
    for (int i = 0; i < n; i++) receive(events[i].data.ptr);
  }
  errors += total - done - errors; // what was never answered
  qsort(latency, done, sizeof *latency, by_value);
  printf("{\"sent\": %ld, \"done\": %ld, \"errors\": %ld, \"p50\": %.3f, \"p99\": %.3f, \"p999\": %.3f, \"max\": %.3f}\n",
         (long)sent, (long)done, (long)errors, percentile(.5), percentile(.99), percentile(.999), done ? latency[done - 1] / 1e6 : 0);
  return 0;
}
