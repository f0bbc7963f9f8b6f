/* Xen's libraries for tests, libxenstat and libxenctrl in one: they play the host that the text file $FAKE_XENSTAT
 * describes, read anew for every snapshot.
 *
 * Lines:  init-fails | fails ERRNO | hangs (until the file no longer says so)
 *         node VERSION CPUS HZ TOTAL FREE
 *         domain ID NAME-IN-HEX|- CPU_NS CUR_MEM MAX_MEM SSID DYING CRASHED SHUTDOWN PAUSED BLOCKED RUNNING
 *         vcpu ONLINE NS | network ID + 8 counters | vbd TYPE DEV OO RD WR RSECT WSECT ERROR   (of the last domain)
 *         vcpus COUNT claims that the last domain has so many, without having them
 *         runstate ID STATE MISSED ENTERED + 6 times + RUNNABLE RUNNING NONAFFINE, as XenServer patches libxenctrl
 *         idle + nanoseconds of each physical CPU | idle-fails ERRNO
 *         runstate-fails ERRNO | answers-for ID (whatever was asked for) | xenctrl-closed (it can't be opened)
 *
 * Flags of xenstat_get_node() are heeded: parts that nobody asks for aren't there. A network costs what it does in the
 * real library, which compiles a regular expression for each line of /proc/net/dev (xenstat_linux.c).
 * -DBEFORE_4_13 leaves out xenstat_vbd_error, as those releases do; -DBROKEN leaves out xenstat_domain_cpu_ns.
 * -DBEFORE_4_1 leaves out xc_getcpuinfo, which had another handle then.
 * -DSTOCK leaves out the calls for run states, as Xen's own libxenctrl does; -DBEFORE_EXT the newer one.
 */
#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long ull;
enum { MOST_DOMAINS = 1200, MOST_PARTS = 8 };
enum { VCPU = 1, NETWORK = 2, XEN_VERSION = 4, VBD = 8 }; /* XENSTAT_* */
struct part { ull field[9]; };
struct domain {
    ull field[11];
    char *name;
    unsigned vcpus, networks, vbds;
    struct part vcpu[MOST_PARTS], network[MOST_PARTS], vbd[MOST_PARTS];
};
struct node {
    char version[64];
    ull field[4];
    unsigned domains;
    struct domain domain[MOST_DOMAINS];
};

static FILE *description(void) {
    const char *path = getenv("FAKE_XENSTAT");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) { fprintf(stderr, "fake libxenstat: FAKE_XENSTAT names no file\n"); abort(); }
    return file;
}

/* Whether a line begins with this word; what follows the word is in `rest`. */
static bool says(const char *word, char rest[4096]) {
    char line[4096];
    bool found = false;
    FILE *file = description();
    while (!found && fgets(line, sizeof line, file)) found = !strncmp(line, word, strlen(word));
    fclose(file);
    if (found) strcpy(rest, line + strlen(word));
    return found;
}

static bool fails(const char *word) {
    char rest[4096];
    bool found = says(word, rest);
    if (found) errno = atoi(rest);
    return found;
}

static void numbers(const char *text, ull *field, int count) {
    char *end;
    for (int i = 0; i < count; i++, text = end) field[i] = strtoull(text, &end, 10);
}

static char *unhex(const char *hex) {
    size_t length = strlen(hex) / 2;
    char *text = calloc(length + 1, 1);
    for (size_t i = 0; i < length; i++) { unsigned byte; sscanf(hex + 2 * i, "%2x", &byte); text[i] = (char)byte; }
    return text;
}

/* Read a line of net/dev as the real library does, for its cost: by an expression that is compiled for it alone. */
static void parse_net_dev(ull domid, struct part *network) {
    enum { COLUMNS = 16, BEFORE = 2 }; /* groups of the expression before the first column */
    static const int column[] = {0, 1, 2, 3, 8, 9, 10, 11};
    const ull *field = network->field;
    char line[512], pattern[512] = "([^:]*):([^0-9]*)";
    regex_t expression;
    regmatch_t group[1 + BEFORE + COLUMNS];
    for (int i = 0; i < COLUMNS; i++) strcat(pattern, i ? "[ ]*([0-9]+)" : "([0-9]+)");
    snprintf(line, sizeof line, "vif%llu.%llu: %llu %llu %llu %llu 0 0 0 0 %llu %llu %llu %llu 0 0 0 0\n", domid,
             field[0], field[1], field[2], field[3], field[4], field[5], field[6], field[7], field[8]);
    if (regcomp(&expression, pattern, REG_EXTENDED)) abort();
    if (regexec(&expression, line, 1 + BEFORE + COLUMNS, group, 0)) abort();
    for (int i = 0; i < 8; i++)
        network->field[1 + i] = strtoull(line + group[1 + BEFORE + column[i]].rm_so, NULL, 10);
    regfree(&expression);
}

void *xenstat_init(void) { return fails("init-fails") ? NULL : malloc(1); }
void xenstat_uninit(void *handle) { free(handle); }

void *xenstat_get_node(void *handle, unsigned flags) {
    (void)handle;
    while (fails("hangs")) usleep(20000);
    if (fails("fails")) return NULL;
    struct node *node = calloc(1, sizeof *node);
    struct domain *domain = NULL;
    char line[4096], word[16], hex[2048];
    int used;
    FILE *file = description();
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s%n", word, &used) != 1) continue;
        if (!strcmp(word, "node")) {
            int version_end;
            sscanf(line + used, "%63s%n", node->version, &version_end);
            if (!(flags & XEN_VERSION)) node->version[0] = '\0';
            numbers(line + used + version_end, node->field, 4);
        } else if (!strcmp(word, "domain")) {
            domain = &node->domain[node->domains++];
            int id_end, name_end;
            sscanf(line + used, "%llu%n", &domain->field[0], &id_end);
            sscanf(line + used + id_end, "%2047s%n", hex, &name_end);
            domain->name = strcmp(hex, "-") ? unhex(hex) : NULL;
            numbers(line + used + id_end + name_end, domain->field + 1, 10);
        } else if (flags & VCPU && !strcmp(word, "vcpu")) numbers(line + used, domain->vcpu[domain->vcpus++].field, 2);
        else if (flags & VCPU && !strcmp(word, "vcpus")) sscanf(line + used, "%u", &domain->vcpus);
        else if (flags & NETWORK && !strcmp(word, "network")) {
            numbers(line + used, domain->network[domain->networks].field, 9);
            parse_net_dev(domain->field[0], &domain->network[domain->networks++]);
        } else if (flags & VBD && !strcmp(word, "vbd")) numbers(line + used, domain->vbd[domain->vbds++].field, 8);
    }
    fclose(file);
    return node;
}

void xenstat_free_node(struct node *node) {
    for (unsigned i = 0; i < node->domains; i++) free(node->domain[i].name);
    free(node);
}

const char *xenstat_node_xen_version(struct node *node) { return node->version; }
unsigned xenstat_node_num_domains(struct node *node) { return node->domains; }
struct domain *xenstat_node_domain_by_index(struct node *node, unsigned i) { return &node->domain[i]; }
struct domain *xenstat_node_domain(struct node *node, unsigned id) { /* for the real xentop, which asks by id */
    for (unsigned i = 0; i < node->domains; i++)
        if (node->domain[i].field[0] == id) return &node->domain[i];
    return NULL;
}
const char *xenstat_domain_name(struct domain *domain) { return domain->name; }
unsigned xenstat_domain_num_vcpus(struct domain *domain) { return domain->vcpus; }
unsigned xenstat_domain_num_networks(struct domain *domain) { return domain->networks; }
unsigned xenstat_domain_num_vbds(struct domain *domain) { return domain->vbds; }
struct part *xenstat_domain_vcpu(struct domain *domain, unsigned i) { return i < MOST_PARTS ? &domain->vcpu[i] : NULL; }
struct part *xenstat_domain_network(struct domain *domain, unsigned i) { return &domain->network[i]; }
struct part *xenstat_domain_vbd(struct domain *domain, unsigned i) { return &domain->vbd[i]; }

#define GETTER(type, object, of, name, index) \
    type xenstat_##of##_##name(struct object *it) { return (type)it->field[index]; }
GETTER(unsigned, node, node, num_cpus, 0) GETTER(ull, node, node, cpu_hz, 1)
GETTER(ull, node, node, tot_mem, 2) GETTER(ull, node, node, free_mem, 3)
GETTER(unsigned, domain, domain, id, 0)
#ifndef BROKEN
GETTER(ull, domain, domain, cpu_ns, 1)
#endif
GETTER(ull, domain, domain, cur_mem, 2) GETTER(ull, domain, domain, max_mem, 3)
GETTER(unsigned, domain, domain, ssid, 4) GETTER(unsigned, domain, domain, dying, 5)
GETTER(unsigned, domain, domain, crashed, 6) GETTER(unsigned, domain, domain, shutdown, 7)
GETTER(unsigned, domain, domain, paused, 8) GETTER(unsigned, domain, domain, blocked, 9)
GETTER(unsigned, domain, domain, running, 10)
GETTER(unsigned, part, vcpu, online, 0) GETTER(ull, part, vcpu, ns, 1)
GETTER(unsigned, part, network, id, 0)
GETTER(ull, part, network, rbytes, 1) GETTER(ull, part, network, rpackets, 2)
GETTER(ull, part, network, rerrs, 3) GETTER(ull, part, network, rdrop, 4)
GETTER(ull, part, network, tbytes, 5) GETTER(ull, part, network, tpackets, 6)
GETTER(ull, part, network, terrs, 7) GETTER(ull, part, network, tdrop, 8)
GETTER(unsigned, part, vbd, type, 0) GETTER(unsigned, part, vbd, dev, 1)
GETTER(ull, part, vbd, oo_reqs, 2) GETTER(ull, part, vbd, rd_reqs, 3) GETTER(ull, part, vbd, wr_reqs, 4)
GETTER(ull, part, vbd, rd_sects, 5) GETTER(ull, part, vbd, wr_sects, 6)
#ifndef BEFORE_4_13
GETTER(bool, part, vbd, error, 7)
#endif

struct domctl {
    uint32_t command, interface_version;
    uint16_t domain, padding[3];
    union {
        struct { uint32_t state, missed_changes; uint64_t field[10]; } runstate;
        uint8_t padding[128];
    } u;
};

void *xc_interface_open(void *logger, void *dombuild_logger, unsigned flags) {
    char rest[4096];
    errno = logger || dombuild_logger || flags ? EINVAL : EACCES;
    return errno == EINVAL || says("xenctrl-closed", rest) ? NULL : malloc(1);
}

int xc_interface_close(void *handle) { free(handle); return 0; }

#ifndef BEFORE_4_1
/* As the hypervisor, it writes no more than `most` times. */
int xc_getcpuinfo(void *handle, int most, uint64_t *idle, int *count) {
    char rest[4096], *text = rest, *end;
    (void)handle;
    if (fails("idle-fails ")) return -1;
    *count = 0;
    if (!says("idle ", rest)) return 0;
    for (ull time; *count < most && (time = strtoull(text, &end, 10), end != text); text = end) idle[(*count)++] = time;
    return 0;
}
#endif

#ifndef STOCK
static int fill(uint32_t domid, struct domctl *domctl) {
    char wanted[32], rest[4096], *text = rest;
    if (fails("runstate-fails ")) return -1;
    memset(domctl, 0, sizeof *domctl);
    domctl->domain = (uint16_t)(says("answers-for ", rest) ? atoi(rest) : (int)domid);
    snprintf(wanted, sizeof wanted, "runstate %u ", domid);
    errno = ESRCH;
    if (!says(wanted, rest)) return -1;
    domctl->u.runstate.state = (uint32_t)strtoull(text, &text, 10);
    domctl->u.runstate.missed_changes = (uint32_t)strtoull(text, &text, 10);
    for (int i = 0; i < 10; i++) domctl->u.runstate.field[i] = strtoull(text, &text, 10);
    return 0;
}

int xc_get_runstate_info(void *handle, uint32_t domid, void *info) {
    struct domctl domctl;
    (void)handle;
    if (fill(domid, &domctl)) return -1;
    memcpy(info, &domctl.u, 64);
    return 0;
}

#ifndef BEFORE_EXT
int xc_get_runstate_info_ext(void *handle, uint32_t domid, struct domctl *domctl) {
    (void)handle;
    return fill(domid, domctl);
}
#endif
#endif
