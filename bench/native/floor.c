// The floor: the least that a user-space server can do. A single-threaded epoll loop that answers every
// FastCGI request (fcgi) or HTTP/1.1 request (http) with the same bytes.
// Not a server: it looks only for the end of each request. It stands for the physical limit in the tables of bench/run.
//
// usage: floor fcgi|http unix:PATH|IPv4:PORT
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BEGIN_REQUEST = 1, END_REQUEST = 3, STDIN = 5, STDOUT = 6, HEADER_SIZE = 8, KEEP_CONN = 1 };

typedef struct {
  int fd;
  int filled;               // bytes in `in` that are not consumed yet
  int keep;                 // FCGI_KEEP_CONN of the last BEGIN_REQUEST
  unsigned char in[128 * 1024];
} Connection;

static unsigned char out[4 << 20];
static int out_size;

static const char http_reply[] =
    "HTTP/1.1 200 OK\r\nServer: F\r\nDate: Sat, 21 Nov 2026 00:00:00 GMT\r\n"
    "Content-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";

static unsigned char fcgi_reply[256];
static int fcgi_reply_size;

static unsigned char *write_header(unsigned char *p, int type, int length, int padding) {
  unsigned char header[HEADER_SIZE] = {1, type, 0, 0, length >> 8, length, padding, 0};
  memcpy(p, header, HEADER_SIZE);
  return p + HEADER_SIZE;
}

// STDOUT, empty STDOUT, END_REQUEST; the request id is filled in for each answer.
static void build_fcgi_reply(void) {
  static const char text[] = "Status: 200\r\nContent-Type: text/plain\r\nContent-Length: 13\r\n\r\nHello, World!";
  int length = sizeof text - 1, padding = -length & 7;
  unsigned char *p = write_header(fcgi_reply, STDOUT, length, padding);
  memcpy(p, text, length);
  p = write_header(p + length + padding, STDOUT, 0, 0);
  p = write_header(p, END_REQUEST, 8, 0) + 8;
  fcgi_reply_size = p - fcgi_reply;
}

static int record_size(const unsigned char *header) { return HEADER_SIZE + (header[4] << 8 | header[5]) + header[6]; }

static void answer_fcgi(const unsigned char *request_header) {
  unsigned char *reply = out + out_size;
  memcpy(reply, fcgi_reply, fcgi_reply_size);
  for (int i = 0; i < fcgi_reply_size; i += record_size(reply + i)) memcpy(reply + i + 2, request_header + 2, 2);
  out_size += fcgi_reply_size;
}

// Both readers return the bytes they consumed, and append an answer to `out` for each complete request.
static int read_fcgi(Connection *c) {
  int at = 0;
  while (c->filled - at >= HEADER_SIZE) {
    unsigned char *header = c->in + at;
    if (c->filled - at < record_size(header)) break;
    if (header[1] == BEGIN_REQUEST) c->keep = header[HEADER_SIZE + 2] & KEEP_CONN;
    if (header[1] == STDIN && header[4] == 0 && header[5] == 0) answer_fcgi(header);
    at += record_size(header);
  }
  return at;
}

static int read_http(Connection *c) {
  int at = 0;
  unsigned char *end;
  while ((end = memmem(c->in + at, c->filled - at, "\r\n\r\n", 4))) {
    memcpy(out + out_size, http_reply, sizeof http_reply - 1);
    out_size += sizeof http_reply - 1;
    at = end + 4 - c->in;
  }
  return at;
}

static int listen_on(char *address) {
  int fd, one = 1;
  if (!strncmp(address, "unix:", 5)) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strncpy(name.sun_path, address + 5, sizeof name.sun_path - 1);
    unlink(name.sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(fd, (void *)&name, sizeof name)) { perror("bind"); exit(1); }
  } else {
    struct sockaddr_in name = {.sin_family = AF_INET};
    char *colon = strchr(address, ':');
    *colon = 0;
    name.sin_port = htons(atoi(colon + 1));
    inet_pton(AF_INET, address, &name.sin_addr);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (void *)&name, sizeof name)) { perror("bind"); exit(1); }
  }
  listen(fd, 4096);
  return fd;
}

static void accept_all(int epoll, int listener) {
  int fd, one = 1;
  while ((fd = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    Connection *c = malloc(sizeof *c);
    c->fd = fd;
    c->filled = c->keep = 0;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
}

static void serve(Connection *c, int http) {
  int n = read(c->fd, c->in + c->filled, sizeof c->in - c->filled);
  if (n < 0 && errno == EAGAIN) return;
  int over = n <= 0;
  if (!over) {
    c->filled += n;
    out_size = 0;
    int used = http ? read_http(c) : read_fcgi(c);
    c->filled -= used;
    memmove(c->in, c->in + used, c->filled);
    for (int sent = 0; sent < out_size;) {
      int w = write(c->fd, out + sent, out_size - sent);
      if (w < 0 && errno != EAGAIN) { over = 1; break; }
      if (w > 0) sent += w;
    }
    over |= out_size && !http && !c->keep;
  }
  if (over) { close(c->fd); free(c); }
}

int main(int argc, char **argv) {
  if (argc != 3) { fprintf(stderr, "usage: floor fcgi|http unix:PATH|IPv4:PORT\n"); return 2; }
  int http = !strcmp(argv[1], "http");
  build_fcgi_reply();
  signal(SIGPIPE, SIG_IGN);
  int listener = listen_on(argv[2]), epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = 0}, events[512];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int n = epoll_wait(epoll, events, 512, -1);
    for (int i = 0; i < n; i++)
      if (events[i].data.ptr) serve(events[i].data.ptr, http); else accept_all(epoll, listener);
  }
}
