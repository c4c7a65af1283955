/* math.c - the bounds that math.h clamps to.
 *
 * Beyond them the result is what it is at them: infinite, zero, one or minus one. */
#include "math.h"

const struct mt_math_bounds mt_math_bounds = {
    .exp_max = 89.0f,   /* above: infinity */
    .exp_min = -104.0f, /* below: 0 */
    .exp2_max = 129.0f,
    .exp2_min = -151.0f,
    .expm1_min = -26.0f,   /* below: -1 */
    .sigmoid_max = 104.0f, /* of -x: above, 0 */
    .sigmoid_min = -70.0f, /* of -x: below, 1 */
    .tanh_max = 10.0f,     /* above: 1 */
    .tail_max = 15.0f,     /* above: 0 */
};
