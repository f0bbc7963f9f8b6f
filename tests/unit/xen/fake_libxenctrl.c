/* A libxenctrl for tests, as XenServer patches it: tells the run states that the text file $FAKE_XENSTAT describes.
 *
 * Lines:  runstate ID STATE MISSED ENTERED + 6 times + RUNNABLE RUNNING NONAFFINE
 *         runstate-fails ERRNO | answers-for ID (whatever was asked for) | xenctrl-closed (it can't be opened)
 * -DSTOCK leaves the calls out, as Xen's own does; -DBEFORE_EXT leaves out the newer one.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct domctl {
    uint32_t command, interface_version;
    uint16_t domain, padding[3];
    union {
        struct { uint32_t state, missed_changes; uint64_t field[10]; } runstate;
        uint8_t padding[128];
    } u;
};

/* Finds the line that begins with a word; what follows the word is in `rest`. */
static int find(const char *word, char rest[4096]) {
    char line[4096];
    int found = 0;
    FILE *file = fopen(getenv("FAKE_XENSTAT"), "r");
    while (!found && fgets(line, sizeof line, file)) found = !strncmp(line, word, strlen(word));
    fclose(file);
    if (found) strcpy(rest, line + strlen(word));
    return found;
}

void *xc_interface_open(void *logger, void *dombuild_logger, unsigned flags) {
    char rest[4096];
    errno = logger || dombuild_logger || flags ? EINVAL : EACCES;
    return errno == EINVAL || find("xenctrl-closed", rest) ? NULL : malloc(1);
}

int xc_interface_close(void *handle) { free(handle); return 0; }

#ifndef STOCK
static int fill(uint32_t domid, struct domctl *domctl) {
    char wanted[32], rest[4096], *text = rest;
    if (find("runstate-fails ", rest)) { errno = atoi(rest); return -1; }
    memset(domctl, 0, sizeof *domctl);
    domctl->domain = (uint16_t)(find("answers-for ", rest) ? atoi(rest) : (int)domid);
    snprintf(wanted, sizeof wanted, "runstate %u ", domid);
    errno = ESRCH;
    if (!find(wanted, rest)) return -1;
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
