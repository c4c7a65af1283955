/* dtype.c - the table behind mt_dtypes, from dtype.def. */
#include "kernel.h"

#define FLOAT MT_CAT_FLOAT
#define INT MT_CAT_INT
#define BOOL MT_CAT_BOOL
#define COMPLEX MT_CAT_COMPLEX
const mt_dtype_info mt_dtypes[MT_NDTYPES] = {
#define MT_DTYPE(id, name, ctype, size, cat) {name, size, cat},
#include "dtype.def"
#undef MT_DTYPE
};
