/* How long the hop's tasks wait for locks of the kernel, by the calls that led there. */
#include "hop.h"

enum {
	/* Shorter waits are summed up without a stack: walking one costs about as much. */
	SHORT_NS = 5000,
};

struct begun {
	__u64 lock;
	__u64 at_ns;
};

struct {
	__uint(type, TASK_STORAGE);
	__uint(map_flags, NO_PREALLOC);
	__type(key, int);
	__type(value, struct begun);
} waiting SEC(".maps");

/* As in locks.rs. */
struct waited {
	__u64 total_ns;
	__u64 count;
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 4096);
	__type(key, __s32);
	__type(value, struct waited);
} waits SEC(".maps");

SEC("tp_btf/contention_begin") int on_begin(__u64 *ctx)
{
	struct task_struct *task = current_task();
	struct begun *begun;

	if (!is_hops(task))
		return 0;
	begun = task_storage(&waiting, task, 0, STORAGE_CREATE);
	/* A mutex may begin twice, spinning and then asleep: the first counts, until the same lock ends. */
	if (!begun || begun->lock)
		return 0;
	begun->lock = ctx[0];
	begun->at_ns = now_ns();
	return 0;
}

SEC("tp_btf/contention_end") int on_end(__u64 *ctx)
{
	struct waited *waited, first = { .count = 1 };
	struct begun *begun;
	__s32 stack = -1;

	begun = task_storage(&waiting, current_task(), 0, 0);
	if (!begun || begun->lock != ctx[0])
		return 0;
	begun->lock = 0;
	first.total_ns = now_ns() - begun->at_ns;
	if (first.total_ns >= SHORT_NS)
		stack = stack_id(ctx, &stacks, 0);
	waited = map_lookup(&waits, &stack);
	if (waited) {
		__sync_fetch_and_add(&waited->total_ns, first.total_ns);
		__sync_fetch_and_add(&waited->count, 1);
	} else {
		map_update(&waits, &stack, &first, 0);
	}
	return 0;
}
