/* isa.c - chooses the variant for this processor.
 *
 * The choice is a pure function of the processor and of MOTH_ISA, so it needs no lock and no
 * state: every call returns the same constant record. */
#include "isa.h"

#include <stdlib.h>
#include <string.h>

#define MT_ISA_TABLE(family)                                       \
  extern const struct mt_##family##_table MT_ISA_CAT(mt_##family##_table, v2); \
  extern const struct mt_##family##_table MT_ISA_CAT(mt_##family##_table, v3); \
  extern const struct mt_##family##_table MT_ISA_CAT(mt_##family##_table, v4); \
  extern const struct mt_##family##_table MT_ISA_CAT(mt_##family##_table, base);
#include "isa_tables.def"
#undef MT_ISA_TABLE

#ifdef __x86_64__

static const struct mt_isa isa_v2 = {
    "v2",
#define MT_ISA_TABLE(family) &mt_##family##_table_v2,
#include "isa_tables.def"
#undef MT_ISA_TABLE
};
static const struct mt_isa isa_v3 = {
    "v3",
#define MT_ISA_TABLE(family) &mt_##family##_table_v3,
#include "isa_tables.def"
#undef MT_ISA_TABLE
};
static const struct mt_isa isa_v4 = {
    "v4",
#define MT_ISA_TABLE(family) &mt_##family##_table_v4,
#include "isa_tables.def"
#undef MT_ISA_TABLE
};

static bool has_v3(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}

const struct mt_isa *mt_isa_choose(void) {
  const char *wish = getenv("MOTH_ISA");
  if (wish && strcmp(wish, "v2") == 0) return &isa_v2;
  if (wish && strcmp(wish, "v3") == 0 && has_v3()) return &isa_v3;
  return has_v4() ? &isa_v4 : has_v3() ? &isa_v3 : &isa_v2;
}

#else

static const struct mt_isa isa_base = {
    "base",
#define MT_ISA_TABLE(family) &mt_##family##_table_base,
#include "isa_tables.def"
#undef MT_ISA_TABLE
};

const struct mt_isa *mt_isa_choose(void) { return &isa_base; }

#endif

const char *mt_isa_name(const struct mt_isa *isa) { return isa->name; }
