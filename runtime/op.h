/* op.h - one operation, one row.
 *
 * A family file in runtime/ops/ declares its operations as a static const table; everything else
 * (Lua function, method, in-place form, help, checks, dispatch, recording, tests) is derived from
 * the row. The schema is the only text that names the arguments:
 *
 *     "name(kind arg, kind arg=default, *, kind arg=default) -> result"
 *
 *   tensor      a tensor                       tensor?    a tensor or nothing
 *   tensor[]    a list of tensors              operand    a tensor or a number (never converted to
 *   index       a tensor of positions                     a tensor: it has a view of its own)
 *   int  float  bool  str  number              number keeps its kind, integer or float
 *   int[]       a list, or one int             int[2]     the same, one int stands for two
 *   size        sizes of a shape: a list, or all remaining arguments
 *   dim  dim[]  dimensions; invoke wraps them to 0..ndim-1 of the first tensor
 *   newdim      a dimension of the result of adding one (unsqueeze, stack): 0..ndim
 *   pos         a position along a dimension: 0-based here, negative counts from the end (the
 *               operation wraps it, it alone knows the size)
 *   padding[2]  as int[2], or a string that the operation knows ("same")
 *   dtype       an element type (an int here: mt_dtype)
 *   ?           behind any kind: may be nothing (kind MT_NIL)
 *
 * Results: `tensor`, `index` (positions: the kernel adds k->index_base), `bool` (Lua gets a
 * boolean), `tensor[]` (a list), or several in parentheses with names. `*` starts the arguments
 * that Lua takes by keyword only. Defaults: 0, 0.5, true, "mean", nil, {0,1}, inf, -inf,
 * float32. */
#ifndef MT_OP_H
#define MT_OP_H

#include "../kernels/kernel.h"
#include "moth.h"

#define MT_MAX_ARGS 16
#define MT_MAX_OUT 4

/* Sets of dtypes. */
#define MT_BIT(d) (1u << MT_##d)
#define MT_REALFLOATS (MT_BIT(F64) | MT_BIT(F32) | MT_BIT(F16) | MT_BIT(BF16))
#define MT_FLOATS_C (MT_REALFLOATS | MT_BIT(C64))
#define MT_INTEGERS (MT_BIT(I64) | MT_BIT(I32) | MT_BIT(I16) | MT_BIT(I8) | MT_BIT(U8))
#define MT_REALS (MT_REALFLOATS | MT_INTEGERS)
#define MT_NUMBERS (MT_REALS | MT_BIT(C64))
#define MT_REALS_B (MT_REALS | MT_BIT(BOOL))
#define MT_ALL (MT_NUMBERS | MT_BIT(BOOL))

/* How the common dtype of the inputs is found. */
typedef enum mt_rule {
  MT_FIRST,         /* that of the first tensor; other tensors may be anything */
  MT_EQUAL,         /* all tensors (not `index` ones) must have the same; mixed ones raise */
  MT_PROMOTE,       /* PyTorch's promotion over tensors and numbers */
  MT_PROMOTE_FLOAT, /* the same, then integers and bool become the default float dtype */
  MT_DEFAULT        /* no tensor decides: the dtype argument or the default float dtype */
} mt_rule;

/* The dtype of the results that the schema calls `tensor`. */
typedef enum mt_result {
  MT_COMMON,     /* the common dtype */
  MT_IS_BOOL,    /* bool */
  MT_SUM_TYPE    /* integers and bool give int64, unless a dtype argument says otherwise */
} mt_result;

typedef struct mt_types {
  uint32_t allow; /* common dtypes that the operation takes */
  uint8_t rule, result;
} mt_types;

/* Describes one result before it is computed. */
typedef struct mt_spec {
  int ndim;
  mt_dtype dtype;
  bool strided; /* views, and results that keep the layout of an input: `stride` counts */
  int64_t size[MT_MAX_DIM], stride[MT_MAX_DIM];
  int64_t offset; /* views: elements from the first element of in[0] */
} mt_spec;

struct mt_opinfo;
struct mt_ctx;
struct mt_back;

/* An invocation in flight: what a shape rule reads and fills. */
typedef struct mt_call {
  moth_runtime *rt;
  const struct mt_opinfo *op;
  const mt_value *arg;           /* all arguments, defaults filled in, dims wrapped */
  moth_tensor *const *in;        /* tensors in schema order, lists expanded; NULL: nothing/number */
  const mt_view *const *inv;     /* their views (also of numbers); NULL: nothing */
  int narg, nin, nout;
  mt_dtype common;               /* from the types rule */
  mt_dtype compute;              /* elementwise: F32, F64, I64, C64 */
  mt_spec out[MT_MAX_OUT];       /* dtype is set from the types rule before the shape rule runs */
  int index_base;
} mt_call;

typedef int (*mt_shape_fn)(mt_call *c);
/* Computes results by calling other operations (ctx.h); they record themselves. */
typedef void (*mt_compose_fn)(struct mt_ctx *c, const mt_value *arg);
/* Gradients of the inputs from gradients of the results, by calling operations (ctx.h). */
typedef void (*mt_backward_fn)(struct mt_back *b);

enum { /* flags */
  MT_METHOD = 1,     /* x:name(...) as well as moth.name(...) */
  MT_INPLACE = 2,    /* has a twin name_ that writes to its first tensor */
  MT_NOFUNC = 4,     /* only the in-place twin is visible (fill_, copy_, normal_ ...) */
  MT_RANDOM = 8,     /* draws numbers: invoke advances the generator */
  MT_HIDDEN = 16,    /* for rules and the standard library: moth._C.name only */
  MT_MULTIVIEW = 32, /* several views of one tensor: writing to them with a graph raises */
  MT_CROSS = 64,     /* input 0 is saved only for the gradient of input 1 and the reverse */
  MT_NOGRAD = 128    /* never recorded, though its input is a float tensor */
};

#define MT_IN(i) (1u << (i))
#define MT_OUT(i) (1u << (16 + (i)))

typedef struct mt_op {
  const char *schema, *help;
  mt_types types;
  mt_shape_fn shape;       /* NULL: elementwise broadcast of all tensors and operands */
  mt_kernel_fn cpu;        /* exactly one of cpu, compose, view */
  mt_scratch_fn scratch;
  int ew;                  /* MT_EW_...: cpu is mt_cpu_elementwise */
  mt_compose_fn compose;
  mt_shape_fn view;        /* results share the storage of in[0] */
  mt_backward_fn backward; /* NULL: not differentiable (float results then need no gradient) */
  uint32_t save;           /* MT_IN(i) | MT_OUT(i): what backward reads; i < 16 */
  uint32_t mutates;        /* MT_IN(i): inputs that the kernel writes (running statistics ...) */
  const char *onnx;        /* "Operator:opset", or NULL */
  const char *sample;      /* arguments from which tests are derived; see tests/lua/derived */
  uint32_t flags;
} mt_op;

#define MT_CPU(name) .cpu = mt_cpu_##name
#define MT_CPU_S(name) .cpu = mt_cpu_##name, .scratch = mt_cpu_##name##_scratch
#define MT_ELEMENTWISE(name) .cpu = mt_cpu_elementwise, .ew = MT_EW_##name

/* A family: the last line of each file in runtime/ops/. The Makefile collects the file names, so a
 * file ops/unary.c must define MT_FAMILY(unary, table). */
typedef struct mt_family {
  const char *name;
  const mt_op *ops;
  int nops;
} mt_family;
#define MT_FAMILY(fam, table) \
  const mt_family mt_family_##fam = {#fam, table, (int)(sizeof(table) / sizeof((table)[0]))}

/* ---- A row after parsing (op.c); built once per process, then constant. ---- */
typedef enum mt_argkind {
  MT_A_TENSOR, MT_A_OPERAND, MT_A_INDEX, MT_A_TENSORS, MT_A_INT, MT_A_FLOAT, MT_A_NUMBER,
  MT_A_BOOL, MT_A_STR, MT_A_INTS, MT_A_SIZE, MT_A_DIM, MT_A_NEWDIM, MT_A_DIMS, MT_A_POS,
  MT_A_DTYPE, MT_A_FLOATS, MT_A_PADDING
} mt_argkind;

typedef struct mt_arginfo {
  char name[24];
  mt_argkind kind;
  bool optional;     /* may be nil */
  bool has_default;
  bool keyword;      /* behind `*` */
  int fixed;         /* int[2]: 2 */
  int in;            /* number of its input, -1 if not a tensor kind */
  mt_value def;
  int64_t deflist[4];
} mt_arginfo;

typedef enum mt_reskind { MT_R_TENSOR, MT_R_INDEX, MT_R_BOOL, MT_R_LIST } mt_reskind;

typedef struct mt_opinfo {
  const mt_op *row;
  const mt_family *family;
  char name[40];
  int id;            /* dense, 0-based */
  int narg, nin, nout;
  int dtype_arg;     /* number of the `dtype` argument, -1: none */
  bool has_list;     /* a tensor[] argument: inputs are counted at run time */
  bool plain;        /* no argument needs conversion at invoke: the fast path */
  const mt_arginfo *arg;
  mt_reskind res[MT_MAX_OUT];
  char resname[MT_MAX_OUT][16];
} mt_opinfo;

/* The operation of that name, NULL if there is none. */
const mt_opinfo *mt_op_find(const char *name);
const mt_opinfo *mt_op_at(int id);
int mt_op_count(void);
/* Parses all rows once; the first caller does it. Returns NULL, or what is wrong with a row. */
const char *mt_op_init(void);

#endif
