/* A libnvidia-ml.so.1 that says what a script says: for tests under NVIDIA's own binding, on hosts without a GPU.
 *
 * NVML_SCRIPT names a file of lines "GPU KEY NUMBER", read anew at each call, so that values move while a process runs.
 * GPU is -1 for the driver as a whole. A reading whose key is not there answers "not supported", as do fields.
 *   G err N, G err.FUNCTION N      every call on the GPU, or this one, fails with N
 *   G hang.FUNCTION MS             the call takes so long, or until the line is gone
 *   G field.ID[.SCOPE] N           a field's value; field.ID.type and field.ID.err change its type and its error
 *   G mig 1, G mig.I.KEY N         MIG is on; instance I exists where it has a key
 *   G xid N, G xid.seq K           an XID event, once for each K
 *   -1 number.I G                  GPU G has number I, as where one before it fell off the bus
 * NVML_CALLS names a file to which each call is added as "FUNCTION GPU". -DOLD_DRIVER leaves newer functions out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID, NOT_SUPPORTED, DENIED, NOT_FOUND = 6, SMALL, TIMEOUT = 10, VERSION = 25 };
#define EXPORT __attribute__((visibility("default")))
#define GPUS 8
#define PARTS 8

typedef struct { int gpu, part; } device;
static device gpus[GPUS], parts[GPUS][PARTS];
static int started;

__attribute__((constructor)) static void number(void) {
    for (int g = 0; g < GPUS; g++) {
        gpus[g] = (device){g, -1};
        for (int p = 0; p < PARTS; p++) parts[g][p] = (device){g, p};
    }
}

static int find(int gpu, const char *key, int64_t *found) {
    FILE *f = fopen(getenv("NVML_SCRIPT"), "r");
    char k[160]; int g, hit = 0; long long v;
    if (!f) return 0;
    while (fscanf(f, "%d %159s %lld", &g, k, &v) == 3)
        if (g == gpu && !strcmp(k, key)) { *found = v; hit = 1; }
    fclose(f);
    return hit;
}
static int64_t get(int gpu, const char *key, int64_t otherwise) {
    int64_t v;
    return find(gpu, key, &v) ? v : otherwise;
}

static int begin(int gpu, const char *function) {
    const char *calls = getenv("NVML_CALLS");
    char k[160]; int64_t v;
    if (calls) {
        FILE *f = fopen(calls, "a");
        if (f) { fprintf(f, "%s %d\n", function, gpu); fclose(f); }
    }
    if (!started) return UNINITIALIZED;
    snprintf(k, sizeof k, "hang.%s", function);
    for (int64_t waited = 0; find(gpu, k, &v) && waited < v; waited += 10) usleep(10000);
    snprintf(k, sizeof k, "err.%s", function);
    if (find(gpu, k, &v)) return (int)v;
    return gpu >= 0 ? (int)get(gpu, "err", OK) : OK;
}
/* Begins a call on a device: an error ends it. */
#define ON(d) device *at = (device *)(d); if (!at) return INVALID; int g = at->gpu; \
    { int error = begin(g, __func__); if (error) return error; } (void)g
#define WHOLE if (at->part >= 0) return NOT_SUPPORTED
/* A key of the GPU, or of the instance where the device is one. */
static int look(device *at, const char *key, int64_t *v) {
    char k[160];
    if (at->part < 0) return find(at->gpu, key, v) ? OK : NOT_SUPPORTED;
    snprintf(k, sizeof k, "mig.%d.%s", at->part, key);
    return find(at->gpu, k, v) ? OK : NOT_SUPPORTED;
}
#define READ(key, v) int64_t v; { int error = look(at, key, &v); if (error) return error; }
#define GETTER(function, type, key) \
    EXPORT int function(void *d, type *out) { ON(d); WHOLE; READ(key, v); *out = (type)v; return OK; }
static int put(char *out, unsigned size, const char *text) {
    if (strlen(text) >= size) return SMALL;
    strcpy(out, text);
    return OK;
}

/* ---- the driver ---- */
EXPORT int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    started++;
    int error = begin(-1, __func__);
    if (error) started--;
    return error;
}
EXPORT int nvmlShutdown(void) { begin(-1, __func__); if (!started) return UNINITIALIZED; started--; return OK; }
EXPORT int nvmlSystemGetDriverVersion(char *out, unsigned n) {
    int e = begin(-1, __func__); return e ? e : put(out, n, "570.124.06");
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return begin(-1, __func__); }
EXPORT int nvmlDeviceGetCount_v2(unsigned *n) { *n = (unsigned)get(-1, "count", 0); return begin(-1, __func__); }
EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **out) {
    if (index >= GPUS) return INVALID;
    char k[16]; snprintf(k, sizeof k, "number.%u", index);
    int g = (int)get(-1, k, index), error = begin(g, __func__);
    *out = &gpus[g];
    return error;
}

/* ---- what does not change ---- */
static void name_uuid(device *at, char *out) {
    int n = at->gpu;
    if (at->part < 0) sprintf(out, "GPU-%d%d%d%d0000-aaaa-4bbb-8ccc-00000000000%d", n, n, n, n, n);
    else sprintf(out, "MIG-%d%d000000-aaaa-4bbb-8ccc-00000000000%d", at->gpu, at->part, at->part);
}
EXPORT int nvmlDeviceGetUUID(void *d, char *out, unsigned n) {
    ON(d); char u[64]; name_uuid(at, u); return put(out, n, u);
}
EXPORT int nvmlDeviceGetName(void *d, char *out, unsigned n) {
    ON(d); return put(out, n, at->part < 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
}
EXPORT int nvmlDeviceGetSerial(void *d, char *out, unsigned n) {
    ON(d); char s[30]; sprintf(s, "165000000%d", g); return put(out, n, s);
}
typedef struct { char old[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;
EXPORT int nvmlDeviceGetPciInfo_v3(void *d, pci *p) {
    ON(d); memset(p, 0, sizeof *p); strcpy(p->bus_id, "00000000:1A:00.0"); p->bus_id[9] = (char)('1' + g); return OK;
}

/* ---- readings ---- */
typedef struct { unsigned gpu, memory; } rates;
EXPORT int nvmlDeviceGetUtilizationRates(void *d, rates *u) {
    ON(d); WHOLE; if (get(g, "mig", 0)) return NOT_SUPPORTED; READ("util", v); u->gpu = (unsigned)v; u->memory = 0;
    return OK;
}
typedef struct { uint64_t total, free, used; } memory1;
EXPORT int nvmlDeviceGetMemoryInfo(void *d, memory1 *m) {
    ON(d); READ("mem.total", total); READ("mem.used", used); READ("mem.reserved", reserved);
    *m = (memory1){(uint64_t)total, (uint64_t)(total - used - reserved), (uint64_t)(used + reserved)};
    return OK;
}
GETTER(nvmlDeviceGetPowerUsage, unsigned, "power")
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power.limit")
GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy")
EXPORT int nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *t) {
    ON(d); WHOLE; if (sensor) return INVALID; READ("temp", v); *t = (unsigned)v; return OK;
}
EXPORT int nvmlDeviceGetClockInfo(void *d, unsigned domain, unsigned *mhz) {
    ON(d); WHOLE; char k[16]; sprintf(k, "clock.%u", domain); READ(k, v); *mhz = (unsigned)v; return OK;
}
EXPORT int nvmlDeviceGetTotalEccErrors(void *d, unsigned kind, unsigned counter, unsigned long long *n) {
    ON(d); WHOLE; char k[16]; sprintf(k, "ecc.%u.%u", kind, counter); READ(k, v); *n = (unsigned long long)v;
    return OK;
}
EXPORT int nvmlDeviceGetRemappedRows(void *d, unsigned *c, unsigned *u, unsigned *p, unsigned *f) {
    ON(d); WHOLE; READ("remap.corrected", v); *c = (unsigned)v;
    *u = (unsigned)get(g, "remap.uncorrected", 0);
    *p = (unsigned)get(g, "remap.pending", 0);
    *f = (unsigned)get(g, "remap.failed", 0);
    return OK;
}
typedef struct { unsigned long long reference, violation; } violation;
EXPORT int nvmlDeviceGetViolationStatus(void *d, unsigned policy, violation *t) {
    ON(d); WHOLE; char k[16]; sprintf(k, "violation.%u", policy); READ(k, v);
    *t = (violation){0, (unsigned long long)v}; return OK;
}

typedef struct {
    unsigned id, scope; int64_t time, latency; unsigned type, error;
    union { double d; unsigned u; unsigned long long ull; } value;
} field;
EXPORT int nvmlDeviceGetFieldValues(void *d, int n, field *f) {
    ON(d); WHOLE;
    for (int k = 0; k < n; k++) {
        char key[64]; int64_t v = 0;
        snprintf(key, sizeof key, "field.%u.err", f[k].id);
        f[k].error = (unsigned)get(g, key, OK);
        snprintf(key, sizeof key, "field.%u.type", f[k].id);
        f[k].type = (unsigned)get(g, key, 3);
        snprintf(key, sizeof key, "field.%u.%u", f[k].id, f[k].scope);
        if (!find(g, key, &v)) {
            snprintf(key, sizeof key, "field.%u", f[k].id);
            if (f[k].scope || !find(g, key, &v)) f[k].error = f[k].error ? f[k].error : NOT_SUPPORTED;
        }
        f[k].value.ull = 0;
        if (f[k].type == 1) f[k].value.u = (unsigned)v;
        else if (f[k].type == 0) f[k].value.d = (double)v;
        else f[k].value.ull = (unsigned long long)v;
    }
    return OK;
}

/* ---- processes ---- */
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process;
static int processes(device *at, unsigned *n, process *p) {
    int64_t pid; unsigned have = 0, room = *n;
    for (char key[16]; snprintf(key, sizeof key, "pid.%u", have), look(at, key, &pid) == OK; have++)
        if (p && have < room) p[have] = (process){(unsigned)pid, 0, 0xFFFFFFFFu, 0xFFFFFFFFu};
    *n = have;
    return have > room ? SMALL : OK;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(void *d, unsigned *n, process *p) {
    ON(d); return processes(at, n, p);
}

/* ---- MIG ---- */
EXPORT int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
    ON(d); READ("mig", v); *now = *pending = (unsigned)v; return OK;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *n) { ON(d); *n = 7; return OK; }
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned index, device **out) {
    ON(d); int64_t v;
    *out = &parts[g][index];
    return look(*out, "mem.total", &v) ? NOT_FOUND : OK;
}
EXPORT int nvmlDeviceGetGpuInstanceId(void *d, unsigned *id) {
    ON(d); if (at->part < 0) return NOT_SUPPORTED; READ("gi", v); *id = (unsigned)v; return OK;
}

/* ---- events ---- */
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event;
static int events, registered[GPUS];
static int64_t told[GPUS];
EXPORT int nvmlEventSetCreate(void **set) {
    *set = &events; memset(registered, 0, sizeof registered); return begin(-1, __func__);
}
EXPORT int nvmlEventSetFree(void *set) { (void)set; return begin(-1, __func__); }
EXPORT int nvmlDeviceGetSupportedEventTypes(void *d, unsigned long long *types) { ON(d); *types = 0xB; return OK; }
EXPORT int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set) {
    (void)set; ON(d);
    if (types & ~0xBull) return NOT_SUPPORTED;
    registered[g] = 1;
    told[g] = get(g, "xid.seq", 0);
    return OK;
}
EXPORT int nvmlEventSetWait_v2(void *set, event *e, unsigned milliseconds) {
    (void)set;
    for (unsigned waited = 0; ; waited += 10) {
        for (int g = 0; g < GPUS; g++) {
            int64_t seq = registered[g] ? get(g, "xid.seq", 0) : 0;
            if (registered[g] && seq > told[g]) {
                told[g] = seq;
                *e = (event){&gpus[g], 8, (unsigned long long)get(g, "xid", 0), 0xFFFFFFFFu, 0xFFFFFFFFu};
                return OK;
            }
        }
        int error = (int)get(-1, "err.nvmlEventSetWait_v2", OK);
        if (error) return error;
        /* Drivers too may come back early. */
        if (waited >= milliseconds || waited >= 20) return TIMEOUT;
        usleep(10000);
    }
}

#ifdef OLD_DRIVER
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "reasons")
#else
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "reasons")
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *p) {
    ON(d); return processes(at, n, p);
}
typedef struct { unsigned version; uint64_t total, reserved, free, used; } memory2;
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *d, memory2 *m) {
    ON(d);
    if (m->version != (sizeof *m | (2u << 24))) return VERSION;
    READ("mem.total", total); READ("mem.used", used); READ("mem.reserved", reserved);
    int within = (int)get(g, "mem.used_holds_reserved", 0);
    m->total = (uint64_t)total;
    m->reserved = (uint64_t)reserved;
    m->free = (uint64_t)(total - used - reserved);
    m->used = (uint64_t)(used + (within ? reserved : 0));
    return OK;
}
typedef struct {
    unsigned version; unsigned char cluster[16]; int status; unsigned clique, state, mask; unsigned char summary;
} fabric;
EXPORT int nvmlDeviceGetGpuFabricInfoV(void *d, fabric *f) {
    ON(d); WHOLE;
    unsigned version = f->version >> 24;
    if (version < 2 || version > (unsigned)get(-1, "fabric.version", 3)) return VERSION;
    READ("fabric.state", v);
    f->state = (unsigned)v; f->status = (int)get(g, "fabric.status", 0);
    return OK;
}

/* GPM: a sample notes the time; the means are the script's, in hundredths. */
typedef struct { device *at; int part; } sample;
typedef struct { unsigned id; int error; double value; char *names[3]; } metric;
typedef struct { unsigned version, n; sample *first, *second; metric m[]; } metrics;
EXPORT int nvmlGpmQueryDeviceSupport(void *d, unsigned *s) {
    ON(d); WHOLE; if (s[0] != 1) return VERSION; s[1] = (unsigned)get(g, "gpm", 0); return OK;
}
EXPORT int nvmlGpmSampleAlloc(sample **s) { *s = calloc(1, sizeof **s); return *s ? begin(-1, __func__) : 20; }
EXPORT int nvmlGpmSampleFree(sample *s) { free(s); return begin(-1, __func__); }
EXPORT int nvmlGpmSampleGet(void *d, sample *s) { ON(d); WHOLE; *s = (sample){at, -1}; return OK; }
EXPORT int nvmlGpmMigSampleGet(void *d, unsigned instance, sample *s) {
    ON(d); *s = (sample){at, (int)instance}; return OK;
}
EXPORT int nvmlGpmMetricsGet(metrics *asked) {
    if (asked->version != 1 || !asked->first->at || !asked->second->at) return INVALID;
    for (unsigned k = 0; k < asked->n; k++) {
        char key[32]; int64_t v;
        metric *m = &asked->m[k];
        if (asked->second->part < 0) sprintf(key, "gpm.%u", m->id);
        else sprintf(key, "gi.%d.gpm.%u", asked->second->part, m->id);
        m->error = find(asked->second->at->gpu, key, &v) ? OK : NOT_SUPPORTED;
        m->value = m->error ? 0 : (double)v / 100;
    }
    return begin(asked->second->at->gpu, __func__);
}
#endif
