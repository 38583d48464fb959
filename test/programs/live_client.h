/* SPDX-License-Identifier: MIT */

/* A client of the live page of idle-server --http. */

#ifndef LIVE_CLIENT_H
#define LIVE_CLIENT_H

#include "programs.h"

#define HOST "Host: localhost\r\n"
#define GET(path) "GET " path " HTTP/1.1\r\n" HOST "\r\n"

#define ANSWER_SIZE 65536

/* An idle-server with a live page, where it listens, what it has done, and the
 * last answer of the page. */
extern program_t server;
extern uint16_t port, http_port;
extern result_t result;
extern char answer[ANSWER_SIZE];

void start_live(const char *options);

/* Ends it, if it runs: whatever happened before, no error, no handle left open.
 */
void end_live(void);

/* Sends the page the request and returns the connection. */
int ask(const char *request);

/* Reads the answer to its end, returns its status and leaves it in answer. */
unsigned long read_answer(int connection);

/* The body of what is in answer, which must be as long as it says. */
const char *body_of_answer(void);

/* Begins to watch; returns the connection, on which frames come next, after the
 * table of figures. */
int view(void);

/* Reads the next frame. */
void read_frame(int viewer);

/* The number in the last frame: that of the only wheel, where there is one for
 * each. */
uint64_t figure(const char *key);

/* Reads frames until one has this number. */
void await_figure(int viewer, const char *key, uint64_t number);

/* The slots are counted in steps: reads frames until so many timers were found
 * in them. Returns how many cells show them. */
size_t await_cells(int viewer, uint64_t timers);

#endif /* LIVE_CLIENT_H */
