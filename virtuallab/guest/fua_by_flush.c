// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * QEMU's NVMe controller has a volatile write cache, takes writes with Force Unit Access (FUA),
 * and drops the bit: such a write is acknowledged while it lies in the cache. With this module,
 * loaded before the kernel's NVMe driver, no NVMe disk of the guest counts as able to do FUA:
 * the kernel sends a flush behind the write in its place, which QEMU passes on. For guests
 * alone: Debian 12's kernel, Linux 6.1, x86-64. Switched off where the twins are the controllers
 * themselves, who take the bit.
 */
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/string.h>

static bool off;
module_param(off, bool, 0444);
MODULE_PARM_DESC(off, "do nothing");

/* void blk_queue_write_cache(struct request_queue *q, bool wc, bool fua) */
static int on_write_cache(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long caller = *(unsigned long *)regs->sp;
	char name[KSYM_SYMBOL_LEN];

	sprint_symbol(name, caller);
	if (strstr(name, "[nvme_core]"))
		regs->dx = 0;
	return 0;
}

static struct kprobe probe = {
	.symbol_name = "blk_queue_write_cache",
	.pre_handler = on_write_cache,
};

static int __init fua_by_flush_init(void)
{
	return off ? 0 : register_kprobe(&probe);
}

static void __exit fua_by_flush_exit(void)
{
	if (!off)
		unregister_kprobe(&probe);
}

module_init(fua_by_flush_init);
module_exit(fua_by_flush_exit);
MODULE_DESCRIPTION("Flushes in place of Force Unit Access on NVMe disks");
MODULE_LICENSE("GPL");
