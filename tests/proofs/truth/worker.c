/*
 * A load of `make truth`: worker WORK SLEEP THREADS PERIOD DUTY PHASE MOVE CPU...
 *
 * In the on-part of a square wave each thread computes for WORK seconds of its own CPU time and then sleeps for SLEEP
 * seconds, again and again. The wave is on for DUTY of each PERIOD seconds, PHASE of a period earlier than CLOCK_MONOTONIC
 * says, so that all loads have one clock. MOVE 0: each thread stays on its CPU, the first on the first; more: all go to
 * the next CPU each MOVE seconds; less: they may run on any of these CPUs. It ends with whoever started it.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static double work, nap, period, duty, phase, move;
static int cpus[1024], cpu_count;

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

static void run_on(int first, int count)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = 0; i < count; i++)
		CPU_SET(cpus[(first + i) % cpu_count], &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("worker: sched_setaffinity");
		exit(1);
	}
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
		compute(work);
		if (nap > 0)
			pause_for(nap);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t thread;

	if (count < 9) {
		fputs("worker WORK SLEEP THREADS PERIOD DUTY PHASE MOVE CPU...\n", stderr);
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	work = atof(words[1]);
	nap = atof(words[2]);
	period = atof(words[4]);
	duty = atof(words[5]);
	phase = atof(words[6]);
	move = atof(words[7]);
	for (int i = 8; i < count && cpu_count < 1024; i++)
		cpus[cpu_count++] = atoi(words[i]);
	for (long i = 1; i < atoi(words[3]); i++)
		if (pthread_create(&thread, NULL, load, (void *)i)) {
			perror("worker: pthread_create");
			return 1;
		}
	load(NULL);
}
