// From either boot protocol to 64-bit Rust.
//
// PVH (Xen, docs/misc/pvh.pandoc) and Multiboot2 (3.3, i386 state) promise the
// same: 32-bit protected mode, flat segments, paging and interrupts off. PVH
// has its structure's address in EBX; Multiboot2 too, and its magic in EAX.
// Stack and descriptor tables are whatever the predecessor had, so the first
// thing is a stack.
//
// Register use up to the far return: EDI says which door, ESI is EBX.

    .section .note.Xen, "a", @note
    .balign 4
    .long 4                     // length of the name
    .long 8                     // length of the value
    .long 18                    // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

    .section .multiboot2, "a"
    .balign 8
multiboot2_header:
    .long 0xe85250d6
    .long 0                     // i386, protected mode
    .long multiboot2_header_end - multiboot2_header
    .long -(0xe85250d6 + (multiboot2_header_end - multiboot2_header))
    .short 6, 0                 // modules on page boundaries
    .long 8
    .short 0, 0                 // end of the header
    .long 8
multiboot2_header_end:

    .section .text.entry, "ax"
    .code32
    .global pvh_start
pvh_start:
    mov     edi, 0x336ec578     // pvh::MAGIC
    jmp     both_start
    .global multiboot2_start
multiboot2_start:
    mov     edi, eax
both_start:
    cli
    cld
    mov     esi, ebx
    mov     esp, offset boot_stack_end

    // COM1 at 115200 baud, 8N1, FIFOs on and empty, no interrupts (16550D data
    // sheet, 8.0): index of the register, value.
    mov     edx, 0x3f9
    xor     eax, eax
    out     dx, al              // IER: none
    mov     edx, 0x3fb
    mov     al, 0x80
    out     dx, al              // LCR: divisor latch
    mov     edx, 0x3f8
    mov     al, 1
    out     dx, al              // DLL: 115200 / 1
    inc     edx
    xor     eax, eax
    out     dx, al              // DLM
    mov     edx, 0x3fb
    mov     al, 3
    out     dx, al              // LCR: 8 bits, no parity, 1 stop bit
    dec     edx
    mov     al, 0xc7
    out     dx, al              // FCR
    mov     edx, 0x3fc
    mov     al, 3
    out     dx, al              // MCR: DTR, RTS

    // CPUID exists if EFLAGS.ID can be changed (Intel SDM, volume 1, 20.1).
    pushfd
    pop     eax
    mov     ecx, eax
    xor     eax, 0x200000
    push    eax
    popfd
    pushfd
    pop     eax
    cmp     eax, ecx
    je      no_long_mode
    mov     eax, 0x80000000
    cpuid
    cmp     eax, 0x80000001
    jb      no_long_mode
    mov     eax, 0x80000001
    cpuid
    bt      edx, 29             // LM
    jnc     no_long_mode

    // The first 4 GiB one to one: 4 directories of 512 pages of 2 MiB. All of
    // .bss is zero, so the upper halves of the entries are.
    mov     eax, 0x83           // present, writable, large
    xor     ecx, ecx
1:  mov     dword ptr [ecx * 8 + early_directories], eax
    add     eax, 0x200000
    inc     ecx
    cmp     ecx, 4 * 512
    jne     1b
    mov     eax, offset early_directories + 3
    xor     ecx, ecx
2:  mov     dword ptr [ecx * 8 + early_level_3], eax
    add     eax, 0x1000
    inc     ecx
    cmp     ecx, 4
    jne     2b
    mov     eax, offset early_level_3 + 3
    mov     dword ptr [early_level_4], eax

    mov     eax, cr4
    or      eax, 0x20           // PAE
    mov     cr4, eax
    mov     eax, offset early_level_4
    mov     cr3, eax
    mov     ecx, 0xc0000080     // EFER
    rdmsr
    or      eax, 0x100          // LME
    wrmsr
    mov     eax, cr0
    or      eax, 0x80010001     // PG, WP, PE
    mov     cr0, eax
    lgdt    [early_gdt_pointer]
    push    8
    mov     eax, offset long_mode_start
    push    eax
    retf

no_long_mode:
    mov     esi, offset no_long_mode_text
3:  lodsb
    test    al, al
    jz      5f
    mov     ah, al
    mov     ecx, 0x100000       // an absent or stuck port must not hold us up
    mov     edx, 0x3fd          // LSR
4:  in      al, dx
    test    al, 0x20            // transmitter can take a byte
    loopz   4b
    mov     edx, 0x3f8
    mov     al, ah
    out     dx, al
    jmp     3b
5:  mov     edx, 0xf4           // isa-debug-exit: panic
    mov     eax, 0x12
    out     dx, eax
6:  hlt
    jmp     6b

    .code64
long_mode_start:
    mov     eax, 16
    mov     ds, eax
    mov     es, eax
    mov     ss, eax
    xor     eax, eax
    mov     fs, eax
    mov     gs, eax
    // The upper halves of registers are undefined after the switch.
    mov     edi, edi
    mov     esi, esi
    lea     rsp, [rip + boot_stack_end]
    xor     ebp, ebp
    call    loader_main
    ud2

// One stub for each exception vector, 16 bytes apart. Those for which the CPU
// pushes no error code push 0, so that every frame looks the same. The mask has
// a bit for each that does (AMD64 manual, volume 2, table 8-1). `push` with a
// number is spelled in bytes, since a symbol would be taken for an address.
    .balign 16
    .global trap_stubs
trap_stubs:
    .set    vector, 0
    .rept   32
    .balign 16
    .if     ((0x60227d00 >> vector) & 1) == 0
    .byte   0x6a, 0
    .endif
    .byte   0x6a, vector
    jmp     trap_common
    .set    vector, vector + 1
    .endr
trap_common:
    mov     rdi, rsp
    and     rsp, -16
    call    loader_trap
    ud2

    .section .rodata.entry, "a"
no_long_mode_text:
    .asciz "boot: this CPU has no 64-bit mode\r\n"
    .balign 8
early_gdt:
    .quad 0
    .quad 0x00af9a000000ffff    // 64-bit code, ring 0
    .quad 0x00cf92000000ffff    // data, ring 0
early_gdt_pointer:
    .short early_gdt_pointer - early_gdt - 1
    .long early_gdt

    .section .bss.entry, "aw", @nobits
    .balign 4096
early_level_4:
    .skip 4096
early_level_3:
    .skip 4096
early_directories:
    .skip 4 * 4096
    .skip 65536
    .global boot_stack_end
boot_stack_end:
