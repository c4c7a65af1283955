/* recurrent.c - recurrent cells and sequences, composed of products and gates.
 *
 * Gates lie behind each other along the last dim in PyTorch's order: i, f, g, o for lstm; r, z, n
 * for gru. The product of the inputs with their weights is made once for the whole sequence.
 * Parameters of a sequence come layer by layer, direction by direction: w_ih, w_hh, then b_ih, b_hh
 * if there are biases, then w_hr if the state is projected. */
#include <string.h>

#include "rules.h"

typedef enum kind {
  RNN_TANH,
  RNN_RELU,
  LSTM,
  GRU
} kind;

typedef struct weights {
  moth_tensor *ih, *hh, *b_ih, *b_hh, *hr;
} weights;

static moth_tensor *linear(mt_ctx *c, moth_tensor *x, moth_tensor *w, moth_tensor *bias) {
  return MT_DO(c, "linear", mt_t(x), mt_t(w), mt_t(bias));
}

/* Part i of n along the last dim. */
static moth_tensor *gate(mt_ctx *c, moth_tensor *x, int i, int n) {
  int64_t size = x ? x->v.size[x->v.ndim - 1] / n : 0;
  return MT_DO(c, "narrow", mt_t(x), mt_i(-1), mt_i(i * size), mt_i(size));
}
static moth_tensor *gate_of(mt_ctx *c, const char *act, moth_tensor *x, int i, int n) {
  return mt_op1(c, act, gate(c, x, i, n));
}

/* f c + i g; the new state is o tanh(c). */
static moth_tensor *lstm_step(mt_ctx *c, moth_tensor *gates, moth_tensor **cell) {
  moth_tensor *kept = mt_op2(c, "mul", gate_of(c, "sigmoid", gates, 1, 4), *cell);
  moth_tensor *new =
      mt_op2(c, "mul", gate_of(c, "sigmoid", gates, 0, 4), gate_of(c, "tanh", gates, 2, 4));
  *cell = mt_op2(c, "add", kept, new);
  return mt_op2(c, "mul", gate_of(c, "sigmoid", gates, 3, 4), mt_op1(c, "tanh", *cell));
}

/* n = tanh(x_n + r (h W_hn + b_hn)); h' = n + z (h - n) */
static moth_tensor *gru_step(mt_ctx *c, moth_tensor *x, moth_tensor *y, moth_tensor *h) {
  moth_tensor *r = mt_op1(c, "sigmoid", mt_op2(c, "add", gate(c, x, 0, 3), gate(c, y, 0, 3)));
  moth_tensor *z = mt_op1(c, "sigmoid", mt_op2(c, "add", gate(c, x, 1, 3), gate(c, y, 1, 3)));
  moth_tensor *n = mt_op2(c, "mul", r, gate(c, y, 2, 3));
  n = mt_op1(c, "tanh", mt_op2(c, "add", gate(c, x, 2, 3), n));
  return mt_op2(c, "add", n, mt_op2(c, "mul", z, mt_op2(c, "sub", h, n)));
}

/* One step from the projected input. */
static moth_tensor *step(mt_ctx *c, kind k, moth_tensor *x, moth_tensor *h, moth_tensor **cell,
                         const weights *w) {
  moth_tensor *y = linear(c, h, w->hh, w->b_hh);
  if (k == GRU) return gru_step(c, x, y, h);
  moth_tensor *sum = mt_op2(c, "add", x, y);
  if (k == RNN_TANH) return mt_op1(c, "tanh", sum);
  if (k == RNN_RELU) return mt_op1(c, "relu", sum);
  h = lstm_step(c, sum, cell);
  return w->hr ? linear(c, h, w->hr, NULL) : h;
}

/* ---- cells: (input, hx, w_ih, w_hh, b_ih?, b_hh?) ---- */

static moth_tensor *tensor_at(const mt_value *arg, int j) {
  return arg[j].kind == MT_TENSOR ? arg[j].u.t : NULL;
}
static void cell(mt_ctx *c, kind k, const mt_value *arg, moth_tensor *h, moth_tensor *state) {
  weights w = {tensor_at(arg, 2), tensor_at(arg, 3), tensor_at(arg, 4), tensor_at(arg, 5), NULL};
  moth_tensor *x = linear(c, arg[0].u.t, w.ih, w.b_ih);
  mt_return(c, step(c, k, x, h, &state, &w));
  if (k == LSTM) mt_return(c, state);
}
static void compose_rnn_tanh_cell(mt_ctx *c, const mt_value *arg) {
  cell(c, RNN_TANH, arg, arg[1].u.t, NULL);
}
static void compose_rnn_relu_cell(mt_ctx *c, const mt_value *arg) {
  cell(c, RNN_RELU, arg, arg[1].u.t, NULL);
}
static void compose_gru_cell(mt_ctx *c, const mt_value *arg) {
  cell(c, GRU, arg, arg[1].u.t, NULL);
}
static void compose_lstm_cell(mt_ctx *c, const mt_value *arg) {
  if (arg[1].kind != MT_TENSORS || arg[1].n != 2) {
    mt_ctx_fail(c, "argument 'hx': expected a list of two tensors (h, c)");
    return;
  }
  cell(c, LSTM, arg, arg[1].u.tensors[0], arg[1].u.tensors[1]);
}

/* ---- sequences ---- */

typedef struct sequence {
  mt_ctx *c;
  kind k;
  moth_tensor *h0, *c0; /* (layers * directions, batch, hidden) */
  moth_tensor *const *params;
  int nparams, per; /* parameters of one direction of one layer */
  bool biases, train, both, batch_first;
  int64_t layers;
  double dropout;
  moth_tensor *hn[64], *cn[64];
  int nstates;
} sequence;

static weights weights_at(const sequence *s, int i) {
  moth_tensor *const *p = s->params + i * s->per;
  weights w = {p[0], p[1], NULL, NULL, NULL};
  int at = 2;
  if (s->biases) {
    w.b_ih = p[2];
    w.b_hh = p[3];
    at = 4;
  }
  if (at < s->per) w.hr = p[at];
  return w;
}

static moth_tensor *select(mt_ctx *c, moth_tensor *t, int64_t i) {
  return MT_DO(c, "select", mt_t(t), mt_i(0), mt_i(i));
}

/* All times of one direction of a layer: (time, batch, ..) in, (time, batch, hidden) out. */
static moth_tensor *run_direction(sequence *s, moth_tensor *x, int i, bool backward) {
  mt_ctx *c = s->c;
  weights w = weights_at(s, i);
  moth_tensor *gx = linear(c, x, w.ih, w.b_ih), *h = select(c, s->h0, i);
  moth_tensor *state = s->k == LSTM ? select(c, s->c0, i) : NULL;
  if (c->status) return NULL;
  int64_t n = x->v.size[0];
  size_t bytes = (size_t)(n ? n : 1) * sizeof(moth_tensor *);
  moth_tensor **out = mt_record_new(&c->rt->alloc, bytes);
  if (!out) {
    c->status = mt_fail(c->rt, MT_NOMEM, "out of memory for a sequence");
    return NULL;
  }
  for (int64_t t = 0; t < n && !c->status; t++) {
    int64_t at = backward ? n - 1 - t : t;
    h = step(c, s->k, select(c, gx, at), h, &state, &w);
    out[at] = h;
  }
  moth_tensor *y = MT_DO(c, "stack", mt_ts(out, (int)n), mt_i(0));
  mt_record_free(&c->rt->alloc, out, bytes);
  s->hn[s->nstates] = h;
  s->cn[s->nstates++] = state;
  return y;
}

static bool check(sequence *s, moth_tensor *x) {
  int64_t want = s->layers * (s->both ? 2 : 1);
  if (want < 1 || want > 64 || s->nparams % want != 0) {
    mt_ctx_fail(s->c, "argument 'params': %d tensors do not fit %lld layers", s->nparams,
                (long long)s->layers);
    return false;
  }
  s->per = (int)(s->nparams / want);
  if (s->per < (s->biases ? 4 : 2) || x->v.ndim != 3 || x->v.size[s->batch_first ? 1 : 0] == 0 ||
      s->h0->v.ndim != 3 || s->h0->v.size[0] != want) {
    mt_ctx_fail(s->c,
                "input %s and state %s do not fit %lld layers (expected 3 dims, no empty "
                "sequence)",
                mt_tensor_str(x), mt_tensor_str(s->h0), (long long)s->layers);
    return false;
  }
  return true;
}

static void run(sequence *s, moth_tensor *x) {
  mt_ctx *c = s->c;
  if (!check(s, x)) return;
  if (s->batch_first) x = MT_DO(c, "transpose", mt_t(x), mt_i(0), mt_i(1));
  for (int64_t layer = 0, i = 0; layer < s->layers && !c->status; layer++) {
    if (layer && s->train && s->dropout > 0)
      x = MT_DO(c, "dropout", mt_t(x), mt_f(s->dropout), mt_b(true));
    moth_tensor *y[2] = {run_direction(s, x, (int)i++, false), NULL};
    if (s->both) y[1] = run_direction(s, x, (int)i++, true);
    if (c->status) return;
    x = s->both ? MT_DO(c, "cat", mt_ts(y, 2), mt_i(-1)) : y[0];
  }
  if (s->batch_first) x = MT_DO(c, "transpose", mt_t(x), mt_i(0), mt_i(1));
  mt_return(c, x);
  mt_return(c, MT_DO(c, "stack", mt_ts(s->hn, s->nstates), mt_i(0)));
  if (s->k == LSTM) mt_return(c, MT_DO(c, "stack", mt_ts(s->cn, s->nstates), mt_i(0)));
}

/* Arguments 2 to 8 are the same for all: params, has_biases, num_layers, dropout, train,
 * bidirectional, batch_first. */
static sequence sequence_of(mt_ctx *c, kind k, const mt_value *arg) {
  sequence s = {.c = c, .k = k, .params = arg[2].u.tensors, .nparams = arg[2].n};
  s.biases = arg[3].u.i;
  s.layers = arg[4].u.i;
  s.dropout = arg[5].u.f;
  s.train = arg[6].u.i;
  s.both = arg[7].u.i;
  s.batch_first = arg[8].u.i;
  return s;
}
static void compose_rnn(mt_ctx *c, const mt_value *arg) {
  const char *how = arg[9].u.s;
  bool relu = strcmp(how, "relu") == 0;
  if (!relu && strcmp(how, "tanh") != 0) {
    mt_ctx_fail(c, "argument 'nonlinearity': expected 'tanh' or 'relu', got '%.20s'", how);
    return;
  }
  sequence s = sequence_of(c, relu ? RNN_RELU : RNN_TANH, arg);
  s.h0 = arg[1].u.t;
  run(&s, arg[0].u.t);
}
static void compose_gru(mt_ctx *c, const mt_value *arg) {
  sequence s = sequence_of(c, GRU, arg);
  s.h0 = arg[1].u.t;
  run(&s, arg[0].u.t);
}
static void compose_lstm(mt_ctx *c, const mt_value *arg) {
  if (arg[1].kind != MT_TENSORS || arg[1].n != 2) {
    mt_ctx_fail(c, "argument 'hx': expected a list of two tensors (h, c)");
    return;
  }
  sequence s = sequence_of(c, LSTM, arg);
  s.h0 = arg[1].u.tensors[0];
  s.c0 = arg[1].u.tensors[1];
  run(&s, arg[0].u.t);
}

#define FLOAT \
  { MT_REALFLOATS, MT_EQUAL, MT_COMMON }

static const mt_op ops[] = {
    {.schema = "rnn_tanh_cell(tensor input, tensor hx, tensor w_ih, tensor w_hh, tensor? b_ih=nil, "
               "tensor? b_hh=nil) -> tensor",
     .help = "tanh(input W_ih' + b_ih + hx W_hh' + b_hh).",
     .types = FLOAT,
     .compose = compose_rnn_tanh_cell,
     .sample = "{2,3}; {2,4}; {4,3}; {4,4}"},
    {.schema = "rnn_relu_cell(tensor input, tensor hx, tensor w_ih, tensor w_hh, tensor? b_ih=nil, "
               "tensor? b_hh=nil) -> tensor",
     .help = "relu(input W_ih' + b_ih + hx W_hh' + b_hh).",
     .types = FLOAT,
     .compose = compose_rnn_relu_cell,
     .sample = "{2,3}; {2,4}; {4,3}; {4,4}"},
    {.schema = "gru_cell(tensor input, tensor hx, tensor w_ih, tensor w_hh, tensor? b_ih=nil, "
               "tensor? b_hh=nil) -> tensor",
     .help = "One step of a gated recurrent unit; gates r, z, n.",
     .types = FLOAT,
     .compose = compose_gru_cell,
     .sample = "{2,3}; {2,2}; {6,3}; {6,2}"},
    {.schema = "lstm_cell(tensor input, tensor[] hx, tensor w_ih, tensor w_hh, tensor? b_ih=nil, "
               "tensor? b_hh=nil) -> (tensor h, tensor c)",
     .help = "One step of a long short-term memory; gates i, f, g, o; hx is {h, c}.",
     .types = FLOAT,
     .compose = compose_lstm_cell},
    {.schema = "rnn(tensor input, tensor hx, tensor[] params, bool has_biases=true, int "
               "num_layers=1, float dropout=0, bool train=false, bool bidirectional=false, bool "
               "batch_first=false, str nonlinearity=\"tanh\") -> (tensor output, tensor h)",
     .help = "A plain recurrent network over a sequence (time, batch, features).",
     .types = FLOAT,
     .compose = compose_rnn},
    {.schema = "gru(tensor input, tensor hx, tensor[] params, bool has_biases=true, int "
               "num_layers=1, float dropout=0, bool train=false, bool bidirectional=false, bool "
               "batch_first=false) -> (tensor output, tensor h)",
     .help = "Gated recurrent units over a sequence (time, batch, features).",
     .types = FLOAT,
     .compose = compose_gru},
    {.schema = "lstm(tensor input, tensor[] hx, tensor[] params, bool has_biases=true, int "
               "num_layers=1, float dropout=0, bool train=false, bool bidirectional=false, bool "
               "batch_first=false) -> (tensor output, tensor h, tensor c)",
     .help = "Long short-term memory over a sequence (time, batch, features); hx is {h, c}.",
     .types = FLOAT,
     .compose = compose_lstm},
};
MT_FAMILY(recurrent, ops);
