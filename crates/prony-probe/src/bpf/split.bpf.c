/* How long requests wait and stay at the hop, and how long the hop waits for what it calls, by the order of arrivals, reads
 * and writes of each TCP socket.
 *
 * One request at a time on a connection: HTTP/1.1, PostgreSQL and Redis are so, and no byte of them is read. Where that does
 * not hold, requests are counted and not timed.
 */
#include "hop.h"
#include "namespace.h"

enum {
	AF_INET = 2,
	AF_INET6 = 10,
	IPPROTO_TCP = 6,
	TCP_LISTEN = 10,
	MSG_PEEK = 2,
	/* After a request that could not be told apart, so many more of its connection are not timed either: an answer may be
	 * that of the one before. A guess. */
	DOUBT = 4,
};

/* Ports that the host listens on, before a request comes: a connection at such a port was accepted, any other one was opened. */
struct {
	__uint(type, HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u8);
} ports SEC(".maps");

enum phase {
	IDLE = 0,
	ARRIVED = 1,	/* accepted: a request lies in the socket */
	TAKEN = 2,	/* accepted: the process has read of it */
	ASKED = 3,	/* opened: the process has written a request */
};

enum side {
	UNKNOWN = 0,
	ACCEPTED = 1,
	OPENED = 2,
};

/* What is known of a socket: found faster than it is found out. */
struct exchange {
	__u64 since_ns;
	__u32 phase;
	__u32 more;	/* arrivals or writes before the answer, besides the first */
	__u32 doubt;
	__u32 end;	/* number of the byte behind those of the last write */
	__u32 place;	/* number; 0: unknown */
	__u8 side;
	__u8 own;	/* a process of the hop has read from it or written to it */
	__u8 unused;
};

struct {
	__uint(type, SOCKET_STORAGE);
	__uint(map_flags, NO_PREALLOC);
	__type(key, int);
	__type(value, struct exchange);
} exchanges SEC(".maps");

/* As `Kind` in split.rs. */
enum kind {
	QUEUE = 0,
	RESIDENCE = 1,
	UPSTREAM = 2,
};

enum {
	/* Two to the power of this many slots for each doubling: 3 % wide. */
	FINE_BITS = 5,
	FINE = 1 << FINE_BITS,
	SLOTS = 1024,
};

/* A port of the hop, or a peer that it calls. Read by split.rs. */
struct place {
	__u16 is_peer;
	__u16 port;
	__u32 family;
	__u8 address[16];
};

enum {
	PLACES = 128,
	KINDS = 3,
};

struct {
	__uint(type, HASH);
	__uint(max_entries, PLACES);
	__type(key, struct place);
	__type(value, __u32);
} places SEC(".maps");

/* Numbers that no place has yet: 1 to PLACES, put by split.rs. */
struct {
	__uint(type, QUEUE_OF);
	__uint(max_entries, PLACES);
	__type(value, __u32);
} numbers SEC(".maps");

struct times {
	__u64 seen;	/* of UPSTREAM; what is seen of RESIDENCE is what was timed of QUEUE */
	__u64 total_ns;
	__u32 slots[SLOTS];
};

/* By number of the place and kind. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, (PLACES + 1) * KINDS);
	__type(key, __u32);
	__type(value, struct times);
} times SEC(".maps");

/* Requests that came to the hop and were timed, so that the reader can see when it has enough. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} enough SEC(".maps");

inline_always __u32 slot_of(__u64 ns)
{
	__u64 us = ns / 1000, rest;
	__u32 doublings = 0;

	if (us < FINE)
		return us;
	rest = us >> FINE_BITS;
#pragma unroll
	for (int bit = 16; bit; bit >>= 1) {
		if (rest >> bit) {
			rest >>= bit;
			doublings += bit;
		}
	}
	return ((doublings + 1) << FINE_BITS) + ((us >> doublings) & (FINE - 1));
}

inline_always __u32 number_of(enum kind kind, struct sock *sock)
{
	struct place place = { .is_peer = kind == UPSTREAM };
	__u32 *number, fresh;

	if (kind == UPSTREAM) {
		place.port = __builtin_bswap16(sock->__sk_common.skc_dport);
		place.family = sock->__sk_common.skc_family;
		if (place.family == AF_INET6)
			read_kernel(place.address, 16, &sock->__sk_common.skc_v6_daddr);
		else
			*(__u32 *)place.address = sock->__sk_common.skc_daddr;
	} else {
		place.port = sock->__sk_common.skc_num;
	}
	number = map_lookup(&places, &place);
	if (!number && !map_pop(&numbers, &fresh)) {
		map_update(&places, &place, &fresh, 1 /* BPF_NOEXIST */);
		number = map_lookup(&places, &place);
	}
	return number ? *number : 0;
}

inline_always struct times *times_of(enum kind kind, struct exchange *exchange, struct sock *sock)
{
	__u32 at;

	if (!exchange->place)
		exchange->place = number_of(kind, sock);
	if (!exchange->place)
		return 0;
	at = exchange->place * KINDS + kind;
	return map_lookup(&times, &at);
}

inline_always void called(struct exchange *exchange, struct sock *sock)
{
	struct times *at = times_of(UPSTREAM, exchange, sock);

	if (at)
		__sync_fetch_and_add(&at->seen, 1);
}

inline_always void timed(enum kind kind, struct exchange *exchange, struct sock *sock)
{
	__u64 ns = now_ns() - exchange->since_ns;
	struct times *at = times_of(kind, exchange, sock);
	__u32 slot = slot_of(ns);

	if (!at)
		return;
	__sync_fetch_and_add(&at->total_ns, ns);
	/* The verifier must see the bound at the very use; clang knows that it holds and would leave it out. */
	as_checked(slot);
	__sync_fetch_and_add(&at->slots[slot & (SLOTS - 1)], 1);
}

/* Ends an exchange. Whether its time is that of one request. */
inline_always int is_clear(struct exchange *exchange)
{
	exchange->phase = IDLE;
	if (exchange->more)
		exchange->doubt = DOUBT + 1;
	exchange->more = 0;
	if (!exchange->doubt)
		return 1;
	exchange->doubt--;
	return 0;
}

inline_always int is_at_port(struct sock *sock)
{
	__u32 port = sock->__sk_common.skc_num;

	return map_lookup(&ports, &port) != 0;
}

inline_always int is_accepted(struct exchange *exchange, struct sock *sock)
{
	if (exchange->side == UNKNOWN)
		exchange->side = is_at_port(sock) ? ACCEPTED : OPENED;
	return exchange->side == ACCEPTED;
}

inline_always int is_tcp_here(struct sock *sock)
{
	__u16 family = sock->__sk_common.skc_family;

	return (family == AF_INET || family == AF_INET6) && sock->sk_protocol == IPPROTO_TCP &&
	       is_here(sock->__sk_common.skc_net.net);
}

/* What is known of a socket that a process of the hop uses now; nothing of any other. `create`: begin to know it. */
inline_always struct exchange *used(struct sock *sock, int create)
{
	struct exchange *exchange = socket_storage(&exchanges, sock, 0, 0);

	if (exchange && exchange->own)
		return exchange;
	if (!is_tcp_here(sock) || !is_hops(current_task()))
		return 0;
	if (!exchange && create)
		exchange = socket_storage(&exchanges, sock, 0, STORAGE_CREATE);
	if (exchange)
		exchange->own = 1;
	return exchange;
}

SEC("tp_btf/sk_data_ready") int on_arrival(__u64 *ctx)
{
	struct sock *sock = (struct sock *)ctx[0];
	struct exchange *exchange = socket_storage(&exchanges, sock, 0, 0);

	if (!exchange) {
		/* On a connection that the hop opened, nothing is awaited before it has written. */
		if (!is_tcp_here(sock) || sock->__sk_common.skc_state == TCP_LISTEN || !is_at_port(sock))
			return 0;
		exchange = socket_storage(&exchanges, sock, 0, STORAGE_CREATE);
		if (!exchange)
			return 0;
	}
	if (is_accepted(exchange, sock)) {
		if (exchange->phase == IDLE) {
			exchange->since_ns = now_ns();
			exchange->phase = ARRIVED;
		} else if (exchange->phase == TAKEN) {
			exchange->more++;
		}
	} else if (exchange->phase == ASKED && is_clear(exchange)) {
		timed(UPSTREAM, exchange, sock);
	}
	return 0;
}

SEC("tp_btf/sock_recv_length") int on_read(__u64 *ctx)
{
	struct sock *sock = (struct sock *)ctx[0];
	int length = ctx[1], flags = ctx[2];
	struct exchange *exchange;

	if (length <= 0 || (flags & MSG_PEEK))
		return 0;
	exchange = used(sock, 0);
	if (!exchange)
		return 0;
	if (exchange->phase == ARRIVED) {
		exchange->phase = TAKEN;
		timed(QUEUE, exchange, sock);
	} else if (exchange->phase == ASKED) {
		/* An answer that no arrival was seen of. */
		exchange->more++;
		is_clear(exchange);
	}
	return 0;
}

inline_always void write(struct sock *sock, struct exchange *exchange)
{
	__u64 *count;
	__u32 zero = 0;

	if (exchange->phase == TAKEN) {
		if (!is_clear(exchange))
			return;
		timed(RESIDENCE, exchange, sock);
		count = map_lookup(&enough, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	} else if (exchange->phase == ASKED) {
		exchange->more++;
	} else if (exchange->phase == IDLE && !is_accepted(exchange, sock)) {
		exchange->since_ns = now_ns();
		exchange->phase = ASKED;
		called(exchange, sock);
	}
}

/* A write begins or goes on, for each packet that it fills (Linux 6.16 and later): before anything of it can arrive elsewhere.
 * What is sent so far and what is left of the write add up to the same for all its packets. */
SEC("tp_btf/tcp_sendmsg_locked") int on_write(__u64 *ctx)
{
	struct sock *sock = (struct sock *)ctx[0];
	struct msghdr *message = (struct msghdr *)ctx[1];
	struct exchange *exchange = used(sock, 1);
	struct tcp_sock *tcp;
	__u32 end;

	if (!exchange)
		return 0;
	tcp = tcp_of(sock);
	if (!tcp)
		return 0;
	end = tcp->write_seq + (__u32)message->msg_iter.count;
	if (exchange->end == end)
		return 0;
	exchange->end = end;
	write(sock, exchange);
	return 0;
}

/* A write has ended: where its begin cannot be seen, this has to stand for it. */
SEC("tp_btf/sock_send_length") int on_written(__u64 *ctx)
{
	struct sock *sock = (struct sock *)ctx[0];
	int length = ctx[1];
	struct exchange *exchange;

	if (length <= 0)
		return 0;
	exchange = used(sock, 1);
	if (exchange)
		write(sock, exchange);
	return 0;
}
