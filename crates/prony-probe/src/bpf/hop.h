/* Which tasks are the hop's: its processes as they were when the look began, and the children that they made since. */
#pragma once
#include "kernel.h"

struct {
	__uint(type, HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} processes SEC(".maps");

inline_always int is_hops(struct task_struct *task)
{
	__u32 process = task->tgid;
	__u32 parent;
	__u8 one = 1;

	if (map_lookup(&processes, &process))
		return 1;
	parent = task->real_parent->tgid;
	if (!parent || !map_lookup(&processes, &parent))
		return 0;
	map_update(&processes, &process, &one, 0);
	return 1;
}

#ifndef STACKS
#define STACKS 2048
#endif

/* Kernel and user stacks by number, a KiB each. A stack whose place is taken by another gets none: the reader counts that as lost. */
struct {
	__uint(type, STACK_TRACE);
	__uint(max_entries, STACKS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, STACK_DEPTH * sizeof(__u64));
} stacks SEC(".maps");
