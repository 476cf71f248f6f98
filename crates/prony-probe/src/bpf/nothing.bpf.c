/* Does nothing: so its run time is what the kernel's timing of a program itself takes. */
#include "kernel.h"

SEC("raw_tp/sys_enter") int on_nothing(void *ctx)
{
	return 0;
}
