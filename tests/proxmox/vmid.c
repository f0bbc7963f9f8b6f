/* For LD_PRELOAD: hides Proxmox's option -id VMID from Debian's QEMU, which doesn't know it. /proc/PID/cmdline keeps it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

typedef int Main(int, char **, char **);
typedef int Start(Main *, int, char **, void *, void *, void *, void *);

int __libc_start_main(Main *main, int argc, char **argv, void *init, void *fini, void *rtld_fini, void *stack_end)
{
	for (int i = 1; i < argc - 1; i++) {
		if (strcmp(argv[i], "-id") == 0) {
			memmove(argv + i, argv + i + 2, (argc - i - 1) * sizeof *argv);
			argc -= 2;
			break;
		}
	}
	Start *start = (Start *)dlsym(RTLD_NEXT, "__libc_start_main");
	return start(main, argc, argv, init, fini, rtld_fini, stack_end);
}
