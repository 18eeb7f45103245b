// node's own HTTP server answering /hello: one process, as node runs by itself.
// usage: node node-server.mjs 127.0.0.1:PORT
import { createServer } from 'node:http';

const [host, port] = process.argv[2].split(':');
createServer((request, response) => {
  response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.end(request.url === '/hello' ? 'Hello, World!' : '');
}).listen(Number(port), host, 4096);
