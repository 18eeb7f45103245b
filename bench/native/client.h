// What the loads share: one GET request as bytes, and a connection to send it over.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { HEADER_SIZE = 8 /* of a FastCGI record */ };

static char request[1024];
static int request_size;

static void die(const char *what) { perror(what); exit(1); }

static char *add_parameter(char *p, const char *name, const char *value) {
  *p++ = strlen(name);
  *p++ = strlen(value);
  return stpcpy(stpcpy(p, name), value);
}

static char *add_header(char *p, int type, int length) {
  char header[HEADER_SIZE] = {1, type, 0, 1, length >> 8, length};
  return mempcpy(p, header, HEADER_SIZE);
}

static void build_request(int fcgi, const char *target) {
  if (strlen(target) > 120) { fprintf(stderr, "the target is too long\n"); exit(2); }
  if (!fcgi) {
    request_size = sprintf(request, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", target);
    return;
  }
  static const char begin[8] = {0, 1 /* responder */, 1 /* keep the connection */};
  char pairs[512], *end = pairs;
  end = add_parameter(end, "REQUEST_METHOD", "GET");
  end = add_parameter(end, "REQUEST_URI", target);
  end = add_parameter(end, "SERVER_PROTOCOL", "HTTP/1.1");
  end = add_parameter(end, "REMOTE_ADDR", "127.0.0.1");
  end = add_parameter(end, "HTTP_HOST", "127.0.0.1");
  char *p = mempcpy(add_header(request, 1, 8), begin, 8);
  p = mempcpy(add_header(p, 4, end - pairs), pairs, end - pairs);
  request_size = add_header(add_header(p, 4, 0), 5, 0) - request;
}

static int connect_to(const char *address) {
  int fd, one = 1;
  if (!strncmp(address, "unix:", 5)) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strncpy(name.sun_path, address + 5, sizeof name.sun_path - 1);
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, (void *)&name, sizeof name)) die(address);
    return fd;
  }
  struct sockaddr_in name = {.sin_family = AF_INET};
  char host[64] = {0};
  const char *colon = strrchr(address, ':');
  if (!colon || colon - address >= (int)sizeof host) { fprintf(stderr, "%s is no address\n", address); exit(2); }
  memcpy(host, address, colon - address);
  name.sin_port = htons(atoi(colon + 1));
  inet_pton(AF_INET, host, &name.sin_addr);
  fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (void *)&name, sizeof name)) die(address);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}
