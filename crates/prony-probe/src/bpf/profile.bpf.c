/* At each tick of a CPU's clock: whose code runs there, and by which calls. */
/* Some hundred different stacks in so many places: a few percent of them meet another in theirs. */
#define STACKS 16384
#include "hop.h"

enum {
	PF_KTHREAD = 0x00200000,	/* include/linux/sched.h */
};

/* As `Owner` in profile.rs. */
enum owner {
	OF_HOP = 0,
	OF_STRANGER = 1,
	OF_KERNEL = 2,	/* idle, or a thread of the kernel: what runs there may be packet work for the hop */
};

struct key {
	__u32 owner;
	__u32 process;
	__s32 kernel;
	__s32 user;
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 16384);
	__type(key, struct key);
	__type(value, __u64);
} counts SEC(".maps");

/* CPUs on which the hop may run. */
struct {
	__uint(type, HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u8);
} cpus SEC(".maps");

/* Samples for which `counts` had no room. */
struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lost SEC(".maps");

SEC("perf_event") int on_tick(void *ctx)
{
	struct task_struct *task = current_task();
	struct key key = { .owner = OF_HOP, .user = -1 };
	__u64 one = 1, *count;
	__u32 cpu = this_cpu(), zero = 0;

	if (task->pid && is_hops(task)) {
		key.process = task->tgid;
		key.user = stack_id(ctx, &stacks, USER_STACK);
	} else {
		if (!map_lookup(&cpus, &cpu))
			return 0;
		key.owner = !task->pid || (task->flags & PF_KTHREAD) ? OF_KERNEL : OF_STRANGER;
	}
	key.kernel = key.owner == OF_STRANGER ? -1 : stack_id(ctx, &stacks, 0);
	count = map_lookup(&counts, &key);
	if (count) {
		__sync_fetch_and_add(count, 1);
	} else if (map_update(&counts, &key, &one, 1 /* BPF_NOEXIST */)) {
		/* Another CPU was first, or there is no room. */
		count = map_lookup(&counts, &key);
		if (!count)
			count = map_lookup(&lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
	return 0;
}
