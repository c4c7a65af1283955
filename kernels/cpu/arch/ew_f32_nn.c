/* ew_f32_nn.c - loops of floats: activations and losses. */
#define MT_PART 3
#define T float
#define PT float
#define SUFFIX f32
#define M(f) mt_##f##_f32
#define HAS(types) MT_CAT(MT_HAS_G_, types)
#include "ew_loops.h"
