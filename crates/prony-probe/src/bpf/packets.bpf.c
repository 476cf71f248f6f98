/* Why packets are dropped in the host's network namespace, and what its connections send again. */
#include "namespace.h"

struct {
	__uint(type, HASH);
	__uint(max_entries, 512);
	__type(key, __u32);
	__type(value, __u64);
} drops SEC(".maps");

/* Retransmits by the state of the connection. */
struct {
	__uint(type, HASH);
	__uint(max_entries, 32);
	__type(key, __u32);
	__type(value, __u64);
} retransmits SEC(".maps");

inline_always void count(void *map, __u32 key)
{
	__u64 one = 1, *sum = map_lookup(map, &key);

	if (sum)
		__sync_fetch_and_add(sum, 1);
	else
		map_update(map, &key, &one, 0);
}

SEC("tp_btf/kfree_skb") int on_drop(__u64 *ctx)
{
	struct sk_buff *packet = (struct sk_buff *)ctx[0];
	struct sock *sock = packet->sk;
	struct net_device *device = packet->dev;
	struct net *net = 0;

	as_checked(sock);
	as_checked(device);
	if (sock) {
		as_checked(sock);
		net = sock->__sk_common.skc_net.net;
		as_checked(net);
	} else if (device) {
		as_checked(device);
		net = device->nd_net.net;
		as_checked(net);
	}
	if (is_here(net))
		count(&drops, (__u32)ctx[2]);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb") int on_retransmit(__u64 *ctx)
{
	struct sock *sock = (struct sock *)ctx[0];

	if (is_here(sock->__sk_common.skc_net.net))
		count(&retransmits, sock->__sk_common.skc_state);
	return 0;
}
