/* settings.c - what scripts can set and ask: random numbers, dtypes, threads, memory, devices. */
#include <float.h>
#include <string.h>

#include "../runtime/types.h"
#include "print.h"
#include "read.h"
#include "tensor.h"

/* ---- random numbers ---- */

static int manual_seed(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  int64_t seed;
  if (!mt_read_int(L, 1, &seed))
    return mt_error_raise(L, S, mt_error_arg(L, S, 1, "seed", "manual_seed", "an integer"));
  moth_seed(S->rt, (uint64_t)seed);
  return 0;
}

static int initial_seed(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mt_lua_of(L)->rt->seed);
  return 1;
}

/* Seed and position of the generator: an int64 tensor of two elements. */
static int get_rng_state(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  moth_tensor *t;
  int64_t two = 2;
  mt_handle *h = mt_handle_new(L, S);
  int status = mt_tensor_new(&t, S->rt, MT_I64, 1, &two, NULL);
  if (status) return mt_error_raise(L, S, status);
  ((int64_t *)(void *)t->v.data)[0] = (int64_t)S->rt->seed;
  ((int64_t *)(void *)t->v.data)[1] = (int64_t)S->rt->offset;
  mt_handle_fill(S, h, t);
  return 1;
}

static int set_rng_state(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  const moth_tensor *t = mt_handle_check(L, S, 1, "state", "set_rng_state");
  int64_t v[2];
  double unused;
  if (t->v.dtype != MT_I64 || t->v.ndim != 1 || t->v.numel != 2)
    return mt_error_throw(L,
                          "bad argument 'state' to set_rng_state: expected a tensor of "
                          "get_rng_state, got %s",
                          mt_tensor_str(t));
  for (int i = 0; i < 2; i++) mt_tensor_read(t, i * t->v.stride[0], &v[i], &unused);
  S->rt->seed = (uint64_t)v[0];
  S->rt->offset = (uint64_t)v[1];
  return 0;
}

/* ---- dtypes ---- */

static mt_dtype check_dtype(lua_State *L, mt_lua *S, int idx, const char *func) {
  mt_dtype d = MT_NODTYPE;
  const moth_tensor *t = mt_handle_tensor(L, S, idx);
  if (t) return (mt_dtype)t->v.dtype;
  int status = mt_read_dtype(L, S, idx, "dtype", func, &d);
  if (status) mt_error_raise(L, S, status);
  return d;
}

static int get_default_dtype(lua_State *L) {
  lua_pushstring(L, mt_dtypes[mt_lua_of(L)->rt->default_float].name);
  return 1;
}

static int set_default_dtype(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype d = check_dtype(L, S, 1, "set_default_dtype");
  if (!mt_dtype_is_float(d))
    return mt_error_throw(L,
                          "bad argument 'dtype' to set_default_dtype: expected a floating dtype, "
                          "got %s",
                          mt_dtypes[d].name);
  S->rt->default_float = d;
  return 0;
}

static int promote_types(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype a = check_dtype(L, S, 1, "promote_types"), b = check_dtype(L, S, 2, "promote_types");
  lua_pushstring(L, mt_dtypes[mt_promote(a, b)].name);
  return 1;
}

static int can_cast(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype a = check_dtype(L, S, 1, "can_cast"), b = check_dtype(L, S, 2, "can_cast");
  lua_pushboolean(L, mt_can_cast(a, b));
  return 1;
}

static void number_field(lua_State *L, const char *name, double v) {
  lua_pushnumber(L, v);
  lua_setfield(L, -2, name);
}

/* Largest and smallest normal value follow from the digits and the exponent's range. */
static int finfo(lua_State *L) {
  static const struct {
    double eps, max, tiny, smallest;
    int bits;
  } info[] = {[MT_F64] = {DBL_EPSILON, DBL_MAX, DBL_MIN, 0x1p-1074, 64},
              [MT_F32] = {FLT_EPSILON, FLT_MAX, FLT_MIN, 0x1p-149, 32},
              [MT_F16] = {0x1p-10, 65504, 0x1p-14, 0x1p-24, 16},
              [MT_BF16] = {0x1p-7, 0x1.fep127, 0x1p-126, 0x1p-133, 16}};
  mt_lua *S = mt_lua_enter(L);
  mt_dtype d = lua_isnoneornil(L, 1) ? S->rt->default_float : check_dtype(L, S, 1, "finfo");
  if (!mt_dtype_is_float(d))
    return mt_error_throw(L, "bad argument 'dtype' to finfo: %s is no floating dtype; use iinfo",
                          mt_dtypes[d].name);
  lua_createtable(L, 0, 7);
  number_field(L, "eps", info[d].eps);
  number_field(L, "max", info[d].max);
  number_field(L, "min", -info[d].max);
  number_field(L, "tiny", info[d].tiny);
  number_field(L, "smallest_normal", info[d].tiny);
  number_field(L, "smallest_subnormal", info[d].smallest);
  lua_pushinteger(L, info[d].bits);
  lua_setfield(L, -2, "bits");
  return 1;
}

static int iinfo(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  mt_dtype d = check_dtype(L, S, 1, "iinfo");
  if (mt_dtype_category(d) != MT_CAT_INT)
    return mt_error_throw(L, "bad argument 'dtype' to iinfo: %s is no integer dtype",
                          mt_dtypes[d].name);
  int bits = 8 * mt_dtype_size(d);
  int64_t max = d == MT_U8 ? 255 : (int64_t)(UINT64_MAX >> 1 >> (64 - bits));
  lua_createtable(L, 0, 3);
  lua_pushinteger(L, max);
  lua_setfield(L, -2, "max");
  lua_pushinteger(L, d == MT_U8 ? 0 : -max - 1);
  lua_setfield(L, -2, "min");
  lua_pushinteger(L, bits);
  lua_setfield(L, -2, "bits");
  return 1;
}

/* ---- threads and memory ---- */

static int set_num_threads(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  int64_t n;
  if (!mt_read_int(L, 1, &n) || n < 1 || n > 4096)
    return mt_error_raise(L, S,
                          mt_error_arg(L, S, 1, "threads", "set_num_threads", "an integer from 1"));
  int status = moth_set_threads(S->rt, (int)n);
  return status ? mt_error_raise(L, S, status) : 0;
}

static int get_num_threads(lua_State *L) {
  lua_pushinteger(L, moth_threads(mt_lua_of(L)->rt));
  return 1;
}

static int memory_stats(lua_State *L) {
  moth_memory m;
  moth_memory_stats(mt_lua_of(L)->rt, &m);
  lua_createtable(L, 0, 5);
  lua_pushinteger(L, m.live);
  lua_setfield(L, -2, "live");
  lua_pushinteger(L, m.cached);
  lua_setfield(L, -2, "cached");
  lua_pushinteger(L, m.peak);
  lua_setfield(L, -2, "peak");
  lua_pushinteger(L, m.allocated);
  lua_setfield(L, -2, "allocated");
  lua_pushinteger(L, m.limit);
  lua_setfield(L, -2, "limit");
  return 1;
}

static int reset_peak_memory_stats(lua_State *L) {
  moth_memory_reset_peak(mt_lua_of(L)->rt);
  return 0;
}

static int set_memory_limit(lua_State *L) {
  mt_lua *S = mt_lua_enter(L);
  int64_t bytes = 0;
  if (!lua_isnoneornil(L, 1) && (!mt_read_int(L, 1, &bytes) || bytes < 0))
    return mt_error_raise(
        L, S, mt_error_arg(L, S, 1, "bytes", "set_memory_limit", "a number of bytes, or nil"));
  moth_memory_set_limit(S->rt, bytes);
  return 0;
}

static int empty_cache(lua_State *L) {
  moth_memory_empty_cache(mt_lua_enter(L)->rt);
  return 0;
}

/* ---- devices ---- */

static int cuda_is_available(lua_State *L) {
  lua_pushboolean(L, 0);
  lua_pushliteral(L, "this build has no CUDA backend");
  return 2;
}
static int cuda_device_count(lua_State *L) {
  lua_pushinteger(L, 0);
  return 1;
}

/* ---- tests of values ---- */

static int is_tensor(lua_State *L) {
  lua_pushboolean(L, mt_handle_at(L, mt_lua_of(L), 1) != NULL);
  return 1;
}

static const mt_luafn functions[] = {
    {"tensor", mt_build_tensor,
     "tensor(table data, *, dtype? dtype=nil, str? device=nil, bool requires_grad=false) -> tensor",
     "A tensor of Lua numbers or booleans in nested tables, or a copy of a tensor. Integers give "
     "int64, any float the default float dtype, booleans bool."},
    {"from_buffer", mt_build_from_buffer,
     "from_buffer(str data, size size, *, dtype dtype=float32) -> tensor",
     "A tensor whose elements are the bytes of a string, in this machine's byte order."},
    {"is_tensor", is_tensor, "is_tensor(any value) -> bool", "Whether the value is a tensor."},
    {"manual_seed", manual_seed, "manual_seed(int seed)",
     "Starts the random numbers anew: the same seed gives the same numbers everywhere."},
    {"initial_seed", initial_seed, "initial_seed() -> int", "The seed in use."},
    {"get_rng_state", get_rng_state, "get_rng_state() -> tensor",
     "Where the random numbers stand; set_rng_state goes on from there."},
    {"set_rng_state", set_rng_state, "set_rng_state(tensor state)", "Undoes what was drawn since."},
    {"get_default_dtype", get_default_dtype, "get_default_dtype() -> str",
     "The dtype of new floating tensors."},
    {"set_default_dtype", set_default_dtype, "set_default_dtype(dtype dtype)",
     "Sets the dtype of new floating tensors."},
    {"promote_types", promote_types, "promote_types(dtype a, dtype b) -> str",
     "The dtype that holds values of both."},
    {"can_cast", can_cast, "can_cast(dtype from, dtype to) -> bool",
     "Whether a result of one dtype may be stored in place in another."},
    {"finfo", finfo, "finfo(dtype? dtype=nil) -> table",
     "Limits of a floating dtype: eps, max, min, tiny, smallest_subnormal, bits."},
    {"iinfo", iinfo, "iinfo(dtype dtype) -> table", "Limits of an integer dtype: max, min, bits."},
    {"set_num_threads", set_num_threads, "set_num_threads(int threads)",
     "At most that many threads compute."},
    {"get_num_threads", get_num_threads, "get_num_threads() -> int", "How many threads compute."},
    {"memory_stats", memory_stats, "memory_stats() -> table",
     "Bytes of tensor elements: live, cached for reuse, peak, allocated in all, limit."},
    {"reset_peak_memory_stats", reset_peak_memory_stats, "reset_peak_memory_stats()",
     "Starts measuring the peak anew."},
    {"set_memory_limit", set_memory_limit, "set_memory_limit(int? bytes=nil)",
     "The most bytes that tensor elements may take; nil: no limit."},
    {"empty_cache", empty_cache, "empty_cache()", "Gives cached memory back to the system."},
    {"gc", mt_pace_gc, "gc(table? options=nil) -> table",
     "What the collector did and how it is paced: counters, bytes, longest pauses. Options: young, "
     "young_max, per_handle, floor (bytes), minor_share, full_share, mode ('generational' or "
     "'incremental')."},
    {NULL, NULL, NULL, NULL}};

static const luaL_Reg cuda[] = {
    {"is_available", cuda_is_available}, {"device_count", cuda_device_count}, {NULL, NULL}};

static const char *const aliases[][2] = {{"double", "float64"}, {"float", "float32"},
                                         {"half", "float16"},   {"long", "int64"},
                                         {"int", "int32"},      {"short", "int16"}};

void mt_settings_open(lua_State *L, mt_lua *S) {
  (void)S;
  mt_help_setfuncs(L, functions, "moth.");
  for (int d = 0; d < MT_NDTYPES; d++) {
    lua_pushstring(L, mt_dtypes[d].name);
    lua_setfield(L, -2, mt_dtypes[d].name);
  }
  for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
    lua_pushstring(L, aliases[i][1]);
    lua_setfield(L, -2, aliases[i][0]);
  }
  lua_pushliteral(L, "newaxis");
  lua_setfield(L, -2, "newaxis");
  lua_pushliteral(L, MOTH_VERSION);
  lua_setfield(L, -2, "version");
  luaL_newlib(L, cuda);
  lua_setfield(L, -2, "cuda");
}
