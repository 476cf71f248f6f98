/* Which sockets and devices are of the host's network namespace. */
#pragma once
#include "kernel.h"

/* Number of the namespace. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} namespace SEC(".maps");

inline_always int is_here(struct net *net)
{
	__u32 zero = 0, *number;

	if (!net)
		return 0;
	as_checked(net);
	number = map_lookup(&namespace, &zero);
	return number && net->ns.inum == *number;
}
