"""prony lab, host @HOST@: the application of a chain. POST /login gives a token, GET /query?id=N needs it.

Tokens are kept in Redis, data in PostgreSQL; both are spoken to over plain sockets, for the standard library of Python has
neither. One process, one thread, asyncio.
"""
import asyncio
import contextvars
import json
import os
import secrets
import struct
import sys
import time

DATABASE, CACHE = "@DATABASE@", "@CACHE@"
POOL = @POOL@            # connections kept to the database; 0: one for each request
QUESTIONS = @QUESTIONS@  # statements for the items of one request, one after the other
ROWS = @CONTENDED_ROWS@  # rows that hold the visits; 0: visits are not counted
HOLD_S = @DELAY_MS@ / 1000  # a wait inside the database for each request
BLOCKING = @BLOCKING@       # the wait is one of the only thread, as that of a driver that knows no asyncio
TRACES = "@TRACES@"         # where its spans go, in the JSON form of OTLP; empty: it makes none
SPANS_AT_ONCE = 200
CACHE_SESSIONS = 64
BY_CODE = b"select id, name, price from items where code = $1"
BY_ID = b"select id, name, price from items where id = $1::int"
VISIT = b"update visits set n = n + 1 where id = $1::int"
WAIT = b"select pg_sleep($1::float8)"


class Span:
    """A request that is served (kind 2), or a call of another host (kind 3), as OpenTelemetry writes them."""
    now = contextvars.ContextVar("now", default=None)
    ended = []

    def __init__(self, kind, name, *called):
        self.kind, self.name, self.called = kind, name, called

    def __enter__(self):
        if TRACES:
            self.parent, self.id = Span.now.get(), secrets.token_hex(8)
            self.trace = self.parent.trace if self.parent else secrets.token_hex(16)
            self.before, self.start = Span.now.set(self), time.time_ns()

    def __exit__(self, *error):
        if not TRACES:
            return
        Span.now.reset(self.before)
        values = [{"stringValue": self.called[0]}, {"intValue": str(self.called[1])}] if self.called else []
        of_attributes = [{"key": k, "value": v} for k, v in zip(("server.address", "server.port"), values)]
        Span.ended.append({
            "traceId": self.trace, "spanId": self.id, "parentSpanId": self.parent.id if self.parent else "",
            "name": self.name, "kind": self.kind, "attributes": of_attributes,
            "startTimeUnixNano": str(self.start), "endTimeUnixNano": str(time.time_ns())})
        if len(Span.ended) >= SPANS_AT_ONCE:
            resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "@HOST@"}}]}
            with open(TRACES, "a") as file:
                batch = {"resource": resource, "scopeSpans": [{"scope": {"name": "lab"}, "spans": Span.ended}]}
                file.write(json.dumps({"resourceSpans": [batch]}) + "\n")
            Span.ended = []


class Database:
    """One session: statements are prepared once and then bound and executed, one question each."""

    def __init__(self):
        self.known = {}

    async def connect(self):
        self.read, self.write = await asyncio.open_connection(DATABASE, 5432)
        start = struct.pack("!I", 196608) + b"user\0app\0database\0app\0\0"
        self.write.write(struct.pack("!I", len(start) + 4) + start)
        await self.until_ready()
        return self

    async def until_ready(self):
        """Rows of the answer, each a list of texts."""
        rows, error = [], None
        while True:
            kind, size = struct.unpack("!cI", await self.read.readexactly(5))
            body = await self.read.readexactly(size - 4)
            if kind == b"D":
                rows.append(fields(body))
            elif kind == b"E":
                error = body.replace(b"\0", b" ").decode(errors="replace")
                if not self.known and b"FATAL" in body:
                    raise RuntimeError(error)
            elif kind == b"Z":
                if error:
                    raise RuntimeError(error)
                return rows

    async def ask(self, statement, *values):
        with Span(3, "ask the database", DATABASE, 5432):
            return await self.ask_now(statement, *values)

    async def ask_now(self, statement, *values):
        parse = b""
        if statement not in self.known:
            self.known[statement] = b"s%d" % len(self.known)
            parse = message(b"P", self.known[statement] + b"\0" + statement + b"\0\0\0")
        values = [str(v).encode() for v in values]
        bind = b"\0" + self.known[statement] + b"\0\0\0" + struct.pack("!H", len(values))
        bind += b"".join(struct.pack("!I", len(v)) + v for v in values) + b"\0\0"
        self.write.write(parse + message(b"B", bind) + message(b"E", b"\0\0\0\0\0") + message(b"S", b""))
        return await self.until_ready()

    async def close(self):
        self.write.write(message(b"X", b""))
        self.write.close()


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def fields(body):
    values, at = [], 2
    for _ in range(struct.unpack_from("!H", body)[0]):
        size, = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return values


class Pool:
    def __init__(self):
        self.free = asyncio.Queue()

    async def start(self):
        for _ in range(POOL):
            self.free.put_nowait(await Database().connect())

    async def take(self):
        return await (self.free.get() if POOL else Database().connect())

    async def give_back(self, db):
        if POOL:
            self.free.put_nowait(db)
        else:
            await db.close()


class Cache:
    """As many connections as anybody needs at once, one question each."""

    async def start(self):
        self.free = asyncio.Queue()
        for _ in range(CACHE_SESSIONS):
            self.free.put_nowait(await asyncio.open_connection(CACHE, 6379))

    async def ask(self, *words):
        with Span(3, "ask the cache", CACHE, 6379):
            session = await self.free.get()
            try:
                return await self.ask_now(*session, *words)
            finally:
                self.free.put_nowait(session)

    @staticmethod
    async def ask_now(read, write, *words):
        words = [str(w).encode() for w in words]
        write.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        line = (await read.readline()).rstrip()
        if line[:1] != b"$":
            return line[1:].decode()
        if line == b"$-1":
            return None
        return (await read.readexactly(int(line[1:]) + 2))[:-2].decode()


pool, cache = Pool(), Cache()


async def query(item):
    db = await pool.take()
    try:
        if ROWS:
            await db.ask(b"begin")
            await db.ask(VISIT, item % ROWS)
        if HOLD_S and BLOCKING:
            time.sleep(HOLD_S)
        elif HOLD_S:
            await db.ask(WAIT, HOLD_S)
        if QUESTIONS > 1:
            rows = [(await db.ask(BY_ID, (item + i) % 60000))[0] for i in range(QUESTIONS)]
        else:
            rows = await db.ask(BY_CODE, CODES[item % len(CODES)])
        if ROWS:
            await db.ask(b"commit")
    finally:
        await pool.give_back(db)
    return [{"id": r[0], "name": r[1].title(), "price": f"{int(r[2]) / 100:.2f}"} for r in rows]


async def answer(method, path, headers, body):
    if path == "/":
        return 200, {"ok": True}
    if method == "POST" and path == "/login":
        user, token = json.loads(body)["user"], secrets.token_hex(16)
        await cache.ask("SET", token, user, "EX", 600)
        return 200, {"token": token}
    token = headers.get("authorization", "").removeprefix("Bearer ")
    if not token or await cache.ask("GET", token) is None:
        return 401, {"error": "no session"}
    return 200, {"items": await query(int(path.rpartition("=")[2] or 0))}


async def serve(read, write):
    try:
        while True:
            head = (await read.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
            body = await read.readexactly(int(headers.get("content-length", 0)))
            try:
                with Span(2, method):
                    status, data = await answer(method, path, headers, body)
            except (RuntimeError, OSError, asyncio.IncompleteReadError) as e:
                print(e, file=sys.stderr, flush=True)
                status, data = 500, {"error": "the database refused"}
            text = json.dumps(data).encode()
            write.write(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(text), text))
            if headers.get("connection", "").lower() == "close":
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        write.close()


async def main(ready):
    global CODES
    first = await Database().connect()
    CODES = [row[0] for row in await first.ask(b"select code from items where id < 20000")]
    await first.close()
    await pool.start()
    await cache.start()
    server = await asyncio.start_server(serve, "0.0.0.0", 80, backlog=2048)
    os.write(ready, b"1")
    os.close(ready)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    # A daemon that listens before its parent ends, so that whoever started it knows.
    waits, ready = os.pipe()
    if os.fork():
        os.close(ready)
        sys.exit(0 if os.read(waits, 1) else 1)
    os.setsid()
    os.close(waits)
    asyncio.run(main(ready))
