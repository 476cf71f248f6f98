/* Where the hop's threads are when they do not run: waiting for a CPU, or asleep in a call of the kernel. */
#include "hop.h"

struct thread {
	__u64 runnable_ns;
	__u64 asleep_ns;
	__s32 stack;
	__u32 known;
};

struct {
	__uint(type, TASK_STORAGE);
	__uint(map_flags, NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* As in threads.rs. */
struct slept {
	__u64 total_ns;
	__u64 count;
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 4096);
	__type(key, __s32);
	__type(value, struct slept);
} sleeps SEC(".maps");

enum {
	SLOTS = 32,
	/* Behind the slots of the histogram. */
	TOTAL_NS = 32,
	THREADS = 33,
};

/* Waits for a CPU by the logarithm to base 2 of their length in microseconds; then their sum, and the threads seen. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 34);
	__type(key, __u32);
	__type(value, __u64);
} queue SEC(".maps");

inline_always void add(__u32 slot, __u64 n)
{
	__u64 *sum = map_lookup(&queue, &slot);

	if (sum)
		__sync_fetch_and_add(sum, n);
}

inline_always struct thread *thread_of(struct task_struct *task)
{
	struct thread *thread;

	if (!is_hops(task))
		return 0;
	thread = task_storage(&threads, task, 0, STORAGE_CREATE);
	if (thread && !thread->known) {
		thread->known = 1;
		add(THREADS, 1);
	}
	return thread;
}

inline_always __u32 slot_of(__u64 ns)
{
	__u64 us = ns / 1000;
	__u32 slot = 0;

#pragma unroll
	for (int bit = 16; bit; bit >>= 1) {
		if (us >> bit) {
			us >>= bit;
			slot += bit;
		}
	}
	return (us ? slot + 1 : 0) & (SLOTS - 1);
}

inline_always int woken(struct task_struct *task)
{
	struct thread *thread = thread_of(task);

	if (thread && !thread->runnable_ns)
		thread->runnable_ns = now_ns();
	return 0;
}

SEC("tp_btf/sched_wakeup") int on_wakeup(__u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_wakeup_new") int on_new(__u64 *ctx)
{
	return woken((struct task_struct *)ctx[0]);
}

SEC("tp_btf/sched_switch") int on_switch(__u64 *ctx)
{
	struct task_struct *leaves = (struct task_struct *)ctx[1], *comes = (struct task_struct *)ctx[2];
	struct thread *thread = thread_of(leaves);
	struct slept *slept, first = { .count = 1 };
	__u64 now, end;

	if (thread && (ctx[0] || !leaves->__state)) {
		thread->runnable_ns = now_ns();
	} else if (thread) {
		thread->asleep_ns = now_ns();
		thread->runnable_ns = 0;
		thread->stack = stack_id(ctx, &stacks, 0);
	}
	thread = thread_of(comes);
	if (!thread)
		return 0;
	now = now_ns();
	end = thread->runnable_ns ? thread->runnable_ns : now;
	if (thread->runnable_ns && now > thread->runnable_ns) {
		add(slot_of(now - thread->runnable_ns), 1);
		add(TOTAL_NS, now - thread->runnable_ns);
	}
	thread->runnable_ns = 0;
	if (!thread->asleep_ns)
		return 0;
	first.total_ns = end > thread->asleep_ns ? end - thread->asleep_ns : 0;
	thread->asleep_ns = 0;
	slept = map_lookup(&sleeps, &thread->stack);
	if (slept) {
		__sync_fetch_and_add(&slept->total_ns, first.total_ns);
		__sync_fetch_and_add(&slept->count, 1);
	} else {
		map_update(&sleeps, &thread->stack, &first, 0);
	}
	return 0;
}
