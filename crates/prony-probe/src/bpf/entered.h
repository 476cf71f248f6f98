/* How long a CPU is within something that it enters and leaves, and that does not nest. */
#pragma once
#include "kernel.h"

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} entered SEC(".maps");

inline_always int enters(void)
{
	__u32 zero = 0;
	__u64 *at_ns = map_lookup(&entered, &zero);

	if (at_ns)
		*at_ns = now_ns();
	return 0;
}

/* Time since then; 0 where it was entered before anybody looked. */
inline_always __u64 leaves(void)
{
	__u32 zero = 0;
	__u64 *at_ns = map_lookup(&entered, &zero), ns;

	if (!at_ns || !*at_ns)
		return 0;
	ns = now_ns() - *at_ns;
	*at_ns = 0;
	return ns;
}
