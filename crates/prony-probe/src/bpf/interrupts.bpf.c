/* How long the handler of each interrupt runs on each CPU. */
#include "kernel.h"

/* Interrupts that CPUs send themselves and each other have no number; as `OWN` in interrupts.rs. */
enum {
	TIMER = 1 << 30,
	RESCHEDULE,
	CALL,
	WORK,
};

/* Read by interrupts.rs. */
struct place {
	__u32 interrupt;
	__u32 cpu;
};

/* Each place is written by its own CPU alone. */
struct {
	__uint(type, HASH);
	__uint(max_entries, 4096);
	__type(key, struct place);
	__type(value, __u64);
} spent SEC(".maps");

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

inline_always int exits(__u32 interrupt)
{
	struct place place = { .interrupt = interrupt, .cpu = this_cpu() };
	__u32 zero = 0;
	__u64 *at_ns = map_lookup(&entered, &zero), *sum, ns;

	if (!at_ns || !*at_ns)
		return 0;
	ns = now_ns() - *at_ns;
	*at_ns = 0;
	sum = map_lookup(&spent, &place);
	if (sum)
		*sum += ns;
	else
		map_update(&spent, &place, &ns, 0);
	return 0;
}

SEC("tp_btf/irq_handler_entry") int on_entry(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/irq_handler_exit") int on_exit(__u64 *ctx)
{
	return exits(ctx[0]);
}

/* The rest is of x86. */

SEC("tp_btf/local_timer_entry") int on_timer(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/local_timer_exit") int on_timer_end(__u64 *ctx)
{
	return exits(TIMER);
}

SEC("tp_btf/reschedule_entry") int on_reschedule(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/reschedule_exit") int on_reschedule_end(__u64 *ctx)
{
	return exits(RESCHEDULE);
}

SEC("tp_btf/call_function_entry") int on_call(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/call_function_exit") int on_call_end(__u64 *ctx)
{
	return exits(CALL);
}

SEC("tp_btf/call_function_single_entry") int on_single(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/call_function_single_exit") int on_single_end(__u64 *ctx)
{
	return exits(CALL);
}

SEC("tp_btf/irq_work_entry") int on_work(__u64 *ctx)
{
	return enters();
}

SEC("tp_btf/irq_work_exit") int on_work_end(__u64 *ctx)
{
	return exits(WORK);
}
