/* isa.h - instruction-set variants of the CPU kernels.
 *
 * The sources in cpu/arch/ are compiled once per variant with MT_ISA set to its name. Each family
 * puts its functions into one table, named through MT_ISA_NAME; isa.c collects the tables of a
 * variant into one mt_isa and chooses among them once. A family's table type is declared in its
 * own header (cpu/FAMILY.h). */
#ifndef MT_CPU_ISA_H
#define MT_CPU_ISA_H

#include "../kernel.h"

#define MT_ISA_CAT2(a, b) a##_##b
#define MT_ISA_CAT(a, b) MT_ISA_CAT2(a, b)
/* mt_foo -> mt_foo_v3 in an object compiled for v3 */
#define MT_ISA_NAME(x) MT_ISA_CAT(x, MT_ISA)

struct mt_isa {
  const char *name;
#define MT_ISA_TABLE(family) const struct mt_##family##_table *family;
#include "isa_tables.def"
#undef MT_ISA_TABLE
};

#endif
