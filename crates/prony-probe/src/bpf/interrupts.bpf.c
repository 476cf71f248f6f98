/* How long the handler of each interrupt runs on each CPU. */
#include "entered.h"

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

inline_always int exits(__u32 interrupt)
{
	struct place place = { .interrupt = interrupt, .cpu = this_cpu() };
	__u64 ns = leaves(), *sum;

	if (!ns)
		return 0;
	sum = map_lookup(&spent, &place);
	if (sum)
		*sum += ns;
	else
		map_update(&spent, &place, &ns, 0);
	return 0;
}

#define INTERRUPT(name, event, number)                     \
	SEC("tp_btf/" event "_entry") int name(__u64 *ctx)       \
	{                                                        \
		return enters();                                       \
	}                                                        \
	SEC("tp_btf/" event "_exit") int name##_end(__u64 *ctx)  \
	{                                                        \
		return exits(number);                                  \
	}

INTERRUPT(on_handler, "irq_handler", ctx[0])
/* The rest is of x86. */
INTERRUPT(on_timer, "local_timer", TIMER)
INTERRUPT(on_reschedule, "reschedule", RESCHEDULE)
INTERRUPT(on_call, "call_function", CALL)
INTERRUPT(on_single, "call_function_single", CALL)
INTERRUPT(on_work, "irq_work", WORK)
