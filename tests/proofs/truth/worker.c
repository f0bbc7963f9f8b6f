/*
 * A load of `make truth`: worker WORK SLEEP THREADS PERIOD DUTY PHASE MOVE COUNTERS none|read|write|cache FILE CPU...
 *
 * In the on-part of a square wave each thread computes for WORK seconds of its own CPU time, reads or writes a random
 * block of FILE past the page cache (or by it the next MiB), and sleeps for SLEEP seconds, again and again. The wave is
 * on for DUTY of each PERIOD seconds, PHASE of a period earlier than CLOCK_MONOTONIC says, so that all loads have one clock. MOVE 0: each
 * thread stays on its CPU, the first on the first; more: all go to the next CPU each MOVE seconds; less: they may run on
 * any of these CPUs. It ends with whoever started it.
 *
 * The file COUNTERS has three numbers: nanoseconds that all disk requests took, less their wait for a CPU; nanoseconds
 * from the start of all rounds to their naps; the number of rounds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (cached ? 1 << 20 : 4096)
#define NUMBERS 8 // arguments until MOVE, the program's name included
#define WORDS (NUMBERS + 3)

static double work, nap, period, duty, phase, move;
static int cpus[1024], cpu_count;
static int disk = -1, writes, cached;
static long blocks;
static struct counters { long long waited, response, rounds; } *counters;

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void pause_for(double time)
{
	struct timespec length = {(time_t)time, (long)((time - floor(time)) * 1e9)};

	nanosleep(&length, NULL);
}

static void compute(double time)
{
	static __thread volatile long sink;
	double end = seconds(CLOCK_THREAD_CPUTIME_ID) + time;

	do {
		for (int i = 0; i < 20000; i++)
			sink += i;
	} while (seconds(CLOCK_THREAD_CPUTIME_ID) < end);
}

static void fail(const char *what)
{
	fputs("worker: ", stderr);
	perror(what);
	exit(1);
}

static long long run_delay(int schedstat)
{
	char text[128] = "";
	long long found = 0;

	if (pread(schedstat, text, sizeof(text) - 1, 0) < 0 || sscanf(text, "%*s %lld", &found) != 1)
		fail("schedstat");
	return found;
}

static void request(void)
{
	static __thread int schedstat = -1;
	static __thread unsigned int seed;
	static __thread void *buffer;
	long long delayed;
	ssize_t done;
	double began;
	off_t at;

	if (!buffer) {
		schedstat = open("/proc/thread-self/schedstat", O_RDONLY);
		seed = (unsigned int)gettid();
		if (posix_memalign(&buffer, 4096, BLOCK))
			fail("memory");
		memset(buffer, 1, BLOCK);
	}
	at = (cached ? seed++ : (unsigned int)rand_r(&seed)) % blocks * BLOCK;
	delayed = run_delay(schedstat);
	began = seconds(CLOCK_MONOTONIC);
	done = writes ? pwrite(disk, buffer, BLOCK, at) : pread(disk, buffer, BLOCK, at);
	if (done != BLOCK)
		fail(writes ? "pwrite" : "pread");
	began = seconds(CLOCK_MONOTONIC) - began;
	__sync_fetch_and_add(&counters->waited, (long long)(began * 1e9) - (run_delay(schedstat) - delayed));
}

static void open_counters(const char *path)
{
	int file = open(path, O_RDWR);

	if (file < 0)
		fail(path);
	counters = mmap(NULL, sizeof(*counters), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (counters == MAP_FAILED)
		fail(path);
}

static void open_disk(const char *how, const char *path)
{
	if (!strcmp(how, "none"))
		return;
	writes = !strcmp(how, "write");
	cached = !strcmp(how, "cache");
	disk = open(path, (cached ? 0 : O_DIRECT) | (writes ? O_WRONLY : O_RDONLY));
	if (disk < 0)
		fail(path);
	blocks = lseek(disk, 0, SEEK_END) / BLOCK;
}

static void run_on(int first, int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < count; i++)
		CPU_SET(cpus[(first + i) % cpu_count], &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void *load(void *number)
{
	long own = (long)number, at = -1;

	if (move < 0)
		run_on(0, cpu_count);
	else if (move == 0)
		run_on(own % cpu_count, 1);
	for (;;) {
		double now = seconds(CLOCK_MONOTONIC), in_period = now / period + phase;

		in_period -= floor(in_period);
		if (in_period >= duty) {
			pause_for((1 - in_period) * period);
			continue;
		}
		if (move > 0 && (long)(now / move) != at) {
			at = (long)(now / move);
			run_on((own + at) % cpu_count, 1);
		}
		if (work > 0)
			compute(work);
		if (disk >= 0)
			request();
		__sync_fetch_and_add(&counters->response, (long long)((seconds(CLOCK_MONOTONIC) - now) * 1e9));
		__sync_fetch_and_add(&counters->rounds, 1);
		if (nap > 0)
			pause_for(nap);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t thread;

	if (count <= WORDS) {
		fputs("worker WORK SLEEP THREADS PERIOD DUTY PHASE MOVE COUNTERS none|read|write|cache FILE CPU...\n", stderr);
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	work = atof(words[1]);
	nap = atof(words[2]);
	period = atof(words[4]);
	duty = atof(words[5]);
	phase = atof(words[6]);
	move = atof(words[7]);
	open_counters(words[NUMBERS]);
	open_disk(words[NUMBERS + 1], words[NUMBERS + 2]);
	for (int i = WORDS; i < count && cpu_count < 1024; i++)
		cpus[cpu_count++] = atoi(words[i]);
	for (long i = 1; i < atoi(words[3]); i++)
		if (pthread_create(&thread, NULL, load, (void *)i))
			fail("pthread_create");
	load(NULL);
}
