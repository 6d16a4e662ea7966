// Where another CPU starts, in real mode, from a copy of this code in a page
// below 1 MiB: CS is the page's segment and IP is 0. It goes straight to long
// mode with page tables that map the copy at its own address and the kernel's
// half at its, takes the one stack on offer, and returns into the kernel by it.
//
// SDM volume 3A, 9.4 (start-up in real mode), 9.8.5 (entering IA-32e mode; CR0.PE
// and CR0.PG can be set at once).
//
// Filled in by `smp`, relative to `trampoline_start`: the descriptor table's
// address, the page tables' and the far jump's target.

.section .rodata.trampoline, "a"
.balign 16
.globl trampoline_start, trampoline_gdt, trampoline_gdt_address, trampoline_root
.globl trampoline_jump, trampoline_long, trampoline_end

.code16
trampoline_start:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    lgdtl trampoline_gdt_limit - trampoline_start
    // CR4: physical address extension alone; the rest follows in the kernel.
    movl $0x20, %eax
    movl %eax, %cr4
    movl trampoline_root - trampoline_start, %eax
    movl %eax, %cr3
    // IA32_EFER: long mode, and no-execute, which the kernel's tables use.
    movl $0xc0000080, %ecx
    xorl %edx, %edx
    movl $0x900, %eax
    wrmsr
    // CR0: paging, protection; caches on, whatever INIT left.
    movl $0x80000001, %eax
    movl %eax, %cr0
    ljmpl *(trampoline_jump - trampoline_start)

.code64
trampoline_long:
    xorl %eax, %eax
    movw %ax, %ss
    movw %ax, %ds
    movw %ax, %es
    // The offer is taken by one exchange: a CPU that comes late finds none.
    movabsq $STACK_OFFER, %rbx
    xchgq %rax, (%rbx)
    testq %rax, %rax
    jz 1f
    movq %rax, %rsp
    // The CPU's number, then the function.
    popq %rdi
    xorl %ebp, %ebp
    retq
1:  cli
    hlt
    jmp 1b

.balign 8
// Null, 64-bit code.
trampoline_gdt:
    .quad 0
    .quad 0x00209b0000000000
    .word 0
trampoline_gdt_limit:
    .word 15
trampoline_gdt_address:
    .long 0
trampoline_root:
    .long 0
trampoline_jump:
    .long 0
    .word 8
trampoline_end:

.text
