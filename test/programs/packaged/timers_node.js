// SPDX-License-Identifier: MIT

// HTTP under load: two processes of a cluster delay each reply by a timer of 0
// or 5 ms, and two threads of the first process ask. It prints what is the same
// each time.

'use strict';
const cluster = require('cluster');
const http = require('http');
const {Worker, isMainThread, parentPort, workerData} =
  require('worker_threads');

const REQUESTS = 5000;
const AT_ONCE = 50;

function serve() {
  http.createServer((request, response) => {
    const delay = request.url === '/late' ? 5 : 0;
    const never = setTimeout(() => process.abort(), 60000);
    setTimeout(() => {
      clearTimeout(never);
      response.end(String(delay));
    }, delay);
  }).listen(0, '127.0.0.1');
}

function ask(port) {
  const agent = new http.Agent({keepAlive: true, maxSockets: AT_ONCE});
  const replies = {'/soon 0': 0, '/late 5': 0};
  let asked = 0, heard = 0;
  const next = () => {
    if (asked === REQUESTS)
      return;
    const path = asked++ % 2 ? '/late' : '/soon';
    http.get({port, host: '127.0.0.1', agent, path}, (response) => {
      response.on('data', (bytes) => {
        replies[path + ' ' + bytes]++;
      });
      response.on('end', () => {
        if (++heard === REQUESTS) {
          agent.destroy();
          parentPort.postMessage(JSON.stringify(replies));
        }
        next();
      });
    });
  };
  for (let i = 0; i < AT_ONCE; i++)
    next();
}

function direct() {
  const threads = [];
  let heard = 0;
  cluster.on('listening', (server, address) => {
    if (threads.length === 2)
      return;
    const thread = new Worker(__filename, {workerData: address.port});
    threads.push(thread);
    thread.on('message', (replies) => {
      console.log(replies);
      if (++heard === 2)
        Object.values(cluster.workers).forEach((it) => it.kill());
    });
  });
  for (let i = 0; i < 2; i++)
    cluster.fork();
}

if (!isMainThread)
  ask(workerData);
else if (cluster.isPrimary)
  direct();
else
  serve();
