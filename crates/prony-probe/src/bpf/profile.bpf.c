/* At each tick of a CPU's clock: whose code runs there, and by which calls.
 *
 * The kernel finds callers by frame pointers, which the programs of most distributions do not keep. So the stack of user code is
 * copied, and its callers are found where there is time for it.
 */
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

#ifdef TARGET_X86_64
enum {
	/* A guess: a request of nginx is some 2 KiB deep, a query of PostgreSQL 8. */
	COPIED_BYTES = 8192,
};

/* Read by profile.rs. */
struct sample {
	__u32 process;
	__s32 kernel;
	__u64 ip;
	__u64 sp;
	__u64 bp;
	__u32 length;
	__u32 unused;
	__u8 stack[COPIED_BYTES];
};

/* Emptied every few milliseconds: half a second of two busy CPUs. */
struct {
	__uint(type, RING);
	__uint(max_entries, 8 << 20);
} samples SEC(".maps");

/* The verifier wants to see each length. */
#define copied(sample, bytes) (read_user((sample)->stack, bytes, (void *)(sample)->sp) ? 0 : (bytes))

/* What there is of the stack, as far as it is copied. That of the first thread ends where its program began. */
inline_always __u32 depth(struct task_struct *task, __u64 sp)
{
	__u64 bytes = task->pid == task->tgid ? task->mm->start_stack - sp : COPIED_BYTES;

	return bytes < COPIED_BYTES ? bytes : COPIED_BYTES;
}

/* Whether there was room. */
inline_always int copy(struct task_struct *task, const struct key *key)
{
	struct pt_regs *registers = registers_of(task);
	struct sample *sample = ring_reserve(&samples, sizeof(*sample), 0);
	__u32 bytes;

	if (!sample)
		return 0;
	sample->process = key->process;
	sample->kernel = key->kernel;
	sample->ip = registers->ip;
	sample->sp = registers->sp;
	sample->bp = registers->bp;
	bytes = depth(task, registers->sp);
	/* The verifier must see the bound at the very use. */
	as_checked(bytes);
	sample->length = bytes <= COPIED_BYTES ? copied(sample, bytes) : 0;
	/* Near the end of any other stack there are fewer. */
	if (!sample->length)
		sample->length = copied(sample, COPIED_BYTES / 2);
	if (!sample->length)
		sample->length = copied(sample, COPIED_BYTES / 4);
	if (!sample->length)
		sample->length = copied(sample, COPIED_BYTES / 16);
	ring_submit(sample, WAKE_NOBODY);
	return 1;
}
#else
inline_always int copy(struct task_struct *task, const struct key *key)
{
	return 0;
}
#endif

inline_always void count(const struct key *key)
{
	__u64 one = 1, *count = map_lookup(&counts, key);
	__u32 zero = 0;

	if (count) {
		__sync_fetch_and_add(count, 1);
	} else if (map_update(&counts, key, &one, 1 /* BPF_NOEXIST */)) {
		/* Another CPU was first, or there is no room. */
		count = map_lookup(&counts, key);
		if (!count)
			count = map_lookup(&lost, &zero);
		if (count)
			__sync_fetch_and_add(count, 1);
	}
}

/* Whose code runs. 0: nobody's that matters. */
inline_always int owner(struct task_struct *task, struct key *key)
{
	__u32 cpu = this_cpu();

	if (task->pid && is_hops(task)) {
		key->owner = OF_HOP;
		key->process = task->tgid;
		return 1;
	}
	if (!map_lookup(&cpus, &cpu))
		return 0;
	key->owner = !task->pid || (task->flags & PF_KTHREAD) ? OF_KERNEL : OF_STRANGER;
	return 1;
}

inline_always int tick(void *ctx, int copies)
{
	struct task_struct *task = current_task();
	struct key key = { .kernel = -1, .user = -1 };

	if (!owner(task, &key))
		return 0;
	if (key.owner != OF_STRANGER)
		key.kernel = stack_id(ctx, &stacks, 0);
	if (key.owner == OF_HOP) {
		if (copies && copy(task, &key))
			return 0;
		key.user = stack_id(ctx, &stacks, USER_STACK);
	}
	count(&key);
	return 0;
}

#ifdef TARGET_X86_64
SEC("perf_event") int on_tick_copying(void *ctx)
{
	return tick(ctx, 1);
}
#endif

SEC("perf_event") int on_tick(void *ctx)
{
	return tick(ctx, 0);
}
