// prony lab, host @HOST@: Node serves the files of the file server from memory, one process for each worker.
'use strict';
const cluster = require('cluster');
const fs = require('fs');
const http = require('http');
const path = require('path');

const WORKERS = @WORKERS@;
const FOLDER = '@DIR@/www';

function serve() {
  const files = new Map(fs.readdirSync(FOLDER).map((name) => ['/' + name, fs.readFileSync(path.join(FOLDER, name))]));
  files.set('/', files.get('/616'));
  const server = http.createServer((request, response) => {
    const body = files.get(request.url);
    response.writeHead(body ? 200 : 404, { 'Content-Type': 'text/plain', 'Content-Length': body ? body.length : 0 });
    response.end(body);
  });
  // Idle connections are kept, as by the other servers.
  server.keepAliveTimeout = 60000;
  server.listen({ port: 80, host: '0.0.0.0', backlog: Number('@BACKLOG@') || 2048 });
}

if (WORKERS > 1 && cluster.isPrimary) {
  for (let i = 0; i < WORKERS; i += 1) cluster.fork();
} else {
  serve();
}
