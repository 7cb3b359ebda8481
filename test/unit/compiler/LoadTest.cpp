#include "compiler/Driver/Load.h"
#include "cost_model/program/ProgramJson.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <map>

using namespace shardwright;
using namespace shardwright::cost;

namespace {
/// The program of a config's text, for `sequence` tokens.
Program programOf(const std::string &text, int64_t sequence = 64) {
  ModelSpec spec;
  Failure failure;
  Program program;
  bool good = parseHfConfig(text, "config.json", spec, failure) &&
              programFromSpec(spec, sequence, program, failure);
  INFO((failure.messages.empty() ? "" : failure.messages[0].text));
  REQUIRE(good);
  return program;
}

std::string llama(int64_t hidden, int64_t ffn, int64_t layers, int64_t heads,
                  int64_t kvHeads, int64_t vocab,
                  const std::string &more = "") {
  auto entry = [](const char *key, int64_t value) {
    return ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  return R"({"model_type": "llama")" + entry("hidden_size", hidden) +
         entry("intermediate_size", ffn) + entry("num_hidden_layers", layers) +
         entry("num_attention_heads", heads) +
         entry("num_key_value_heads", kvHeads) + entry("vocab_size", vocab) +
         more + "}";
}

const std::string gpt2 = R"({"model_type": "gpt2", "n_embd": 768,
  "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257)";

const Kind &kindOf(const Program &program, const std::string &name) {
  int index = kindIndex(program, name);
  REQUIRE(index >= 0);
  return program.kinds[index];
}
const Parameter &parameterOf(const Kind &kind, const std::string &hfName,
                             int64_t offset = 0) {
  for (const Parameter &parameter : kind.parameters)
    if (parameter.hfName == hfName && parameter.hfOffset == offset)
      return parameter;
  FAIL("no parameter " << hfName);
  return kind.parameters[0];
}
int64_t count(const Function &function, ResultKind kind) {
  int64_t total = 0;
  for (const Result &result : function.results)
    total += result.kind == kind;
  return total;
}
} // namespace

// Totals that the publishers' checkpoints have.
TEST_CASE("parameter counts of public models are exact") {
  CHECK(parameterCount(programOf(llama(4096, 11008, 32, 32, 32, 32000))) ==
        6738415616); // Llama 2 7B
  CHECK(parameterCount(programOf(llama(4096, 14336, 32, 32, 8, 128256))) ==
        8030261248); // 3 8B
  CHECK(parameterCount(programOf(llama(8192, 28672, 80, 64, 8, 128256))) ==
        70553706496); // 3 70B
  CHECK(parameterCount(programOf(llama(16384, 53248, 126, 128, 8, 128256))) ==
        405853388800); // Llama 3.1 405B
  CHECK(parameterCount(programOf(gpt2 + "}")) == 124439808);
}

// By hand, h = 8, f = 12, n = 4 heads of 6, 2 kv heads, V = 10, L = 3:
// a layer has q 24*8, k and v 12*8 each, o 8*24, gate, up, down 3*12*8 and two
// norms 2*8: 192 + 192 + 192 + 288 + 16 = 880.
TEST_CASE("optional parts change the parameter count by what they hold") {
  auto total = [](const std::string &more) {
    return parameterCount(
        programOf(llama(8, 12, 3, 4, 2, 10, ", \"head_dim\": 6" + more)));
  };
  CHECK(total("") == 3 * 880 + 2 * 80 + 8);
  CHECK(total(R"(, "tie_word_embeddings": true)") == 3 * 880 + 80 + 8);
  // Biases: 24 + 12 + 12 + 8 of attention, 12 + 12 + 8 of the MLP.
  CHECK(total(R"(, "attention_bias": true)") == 3 * (880 + 56) + 168);
  CHECK(total(R"(, "mlp_bias": true)") == 3 * (880 + 32) + 168);
}

TEST_CASE("a program has the model's sizes, stack and policies") {
  Program program = programOf(llama(48, 76, 5, 8, 4, 259), 24);
  CHECK(program.name == "config");
  CHECK(program.family == "llama");
  CHECK(program.sequence == 24);
  CHECK(program.layers == 5);
  CHECK(program.headDim == 6);
  REQUIRE(program.stack.size() == 3);
  CHECK(program.kinds[program.stack[1].kind].name == "dense");
  CHECK(program.stack[1].count == 5);

  const Kind &embed = kindOf(program, "embed"),
             &dense = kindOf(program, "dense"), &head = kindOf(program, "head");
  REQUIRE(embed.variants.size() == 1);
  CHECK(embed.variants[0].dataGrad.empty());
  CHECK_FALSE(embed.variants[0].weightGrad.empty());
  REQUIRE(head.variants.size() == 1);
  CHECK(count(head.variants[0].forward, ResultKind::Loss) == 1);
  REQUIRE(dense.variants.size() == 3);
  CHECK(dense.variants[0].policy == cost::Recompute::None);

  // Full: nothing saved, the forward runs again but for what only the output
  // needs (down, mlp_residual). Selective: two values less, one op again.
  const KindVariant &none = dense.variants[0], &selective = dense.variants[1],
                    &full = dense.variants[2];
  CHECK(count(full.forward, ResultKind::Saved) == 0);
  CHECK(full.dataGrad.ops.size() - none.dataGrad.ops.size() ==
        full.forward.ops.size() - 2);
  CHECK(count(none.forward, ResultKind::Saved) -
            count(selective.forward, ResultKind::Saved) ==
        2);
  CHECK(selective.dataGrad.ops.size() - none.dataGrad.ops.size() == 1);
  for (const KindVariant &variant : dense.variants)
    CHECK(count(variant.weightGrad, ResultKind::ParameterGrad) ==
          static_cast<int64_t>(dense.parameters.size()));
}

// Backward does the contractions of forward twice; causal attention has 14
// instead of 4 * 2 multiply-adds a pair and column of the head.
TEST_CASE("gradient flops are twice the forward's") {
  Program program = programOf(llama(48, 76, 5, 8, 4, 259), 24);
  auto flops = [](const Function &function, KernelClass kernel) {
    int64_t total = 0;
    for (const Op &op : function.ops)
      if (op.space.kernel == kernel)
        total += flopsOf(op.space).count();
    return total;
  };
  for (const Kind &kind : program.kinds) {
    const KindVariant &none = kind.variants[0];
    int64_t forward = flops(none.forward, KernelClass::Gemm);
    CHECK(flops(none.dataGrad, KernelClass::Gemm) == forward);
    CHECK(flops(none.weightGrad, KernelClass::Gemm) == forward);
  }
}

TEST_CASE("parameters say where Hugging Face keeps them") {
  Program program = programOf(llama(48, 76, 5, 8, 4, 259), 24);
  const Kind &dense = kindOf(program, "dense");
  const Parameter &q =
      parameterOf(dense, "model.layers.{}.self_attn.q_proj.weight");
  CHECK(q.hfShape == std::vector<int64_t>{48, 48});
  CHECK(q.hfStrides == std::vector<int64_t>{2 * 6 * 48, 6 * 48, 48, 1});
  CHECK(q.decay);
  CHECK(q.init == Init::Normal);
  CHECK(q.initScale == 0.02);
  const Parameter &norm =
      parameterOf(dense, "model.layers.{}.input_layernorm.weight");
  CHECK(norm.init == Init::Ones);
  CHECK_FALSE(norm.decay);

  // GPT-2 keeps (in, out) matrices, and q, k, v side by side in one.
  Program gpt = programOf(gpt2 + "}");
  const Kind &layer = kindOf(gpt, "dense");
  const Parameter &k =
      parameterOf(layer, "transformer.h.{}.attn.c_attn.weight", 768);
  CHECK(k.hfShape == std::vector<int64_t>{768, 2304});
  CHECK(k.hfStrides == std::vector<int64_t>{64, 1, 2304});
  const Parameter &bias =
      parameterOf(layer, "transformer.h.{}.attn.c_attn.bias", 1536);
  CHECK(bias.hfShape == std::vector<int64_t>{2304});
  CHECK_FALSE(bias.decay);
  const Parameter &projection =
      parameterOf(layer, "transformer.h.{}.mlp.c_proj.weight");
  CHECK(projection.initScale == Approx(0.02 / std::sqrt(24.0)));
  CHECK(projection.hfStrides == std::vector<int64_t>{1, 768});
  const Parameter &table =
      parameterOf(kindOf(gpt, "embed"), "transformer.wte.weight");
  CHECK(table.shared == "transformer.wte.weight");
  CHECK(table.shared == kindOf(gpt, "head").parameters.back().shared);
}

TEST_CASE("every element of a Hugging Face tensor belongs to one parameter") {
  for (const std::string &text :
       {llama(48, 76, 5, 8, 4, 259,
              R"(, "attention_bias": true, "mlp_bias": true)"),
        std::string(R"({"model_type": "gpt2", "n_embd": 40, "n_layer": 2,
          "n_head": 4, "n_positions": 24, "vocab_size": 61,
          "tie_word_embeddings": false})")}) {
    std::map<std::string, std::vector<int>> owners;
    for (const Kind &kind : programOf(text, 24).kinds)
      for (const Parameter &parameter : kind.parameters) {
        std::vector<int> &seen = owners[parameter.hfName];
        int64_t elements = 1;
        for (int64_t extent : parameter.hfShape)
          elements *= extent;
        seen.resize(elements);
        for (int64_t i = 0; i < elementCount(parameter); ++i) {
          int64_t rest = i, at = parameter.hfOffset;
          for (size_t dim = parameter.dims.size(); dim-- > 0;) {
            at += rest % parameter.dims[dim].size * parameter.hfStrides[dim];
            rest /= parameter.dims[dim].size;
          }
          REQUIRE(at < elements);
          ++seen[at];
        }
      }
    for (const auto &[tensor, seen] : owners) {
      CAPTURE(tensor);
      CHECK(std::all_of(seen.begin(), seen.end(),
                        [](int times) { return times == 1; }));
    }
  }
}

TEST_CASE("arguments and results of gradient functions agree") {
  Program program = programOf(gpt2 + "}", 32);
  for (const Kind &kind : program.kinds)
    for (const KindVariant &variant : kind.variants) {
      auto same = [&](const Function &user, ArgKind argKind,
                      const Function &producer, ResultKind resultKind) {
        for (const Argument &argument : user.arguments) {
          if (argument.kind != argKind)
            continue;
          bool found = false;
          for (const Result &result : producer.results)
            if (result.kind == resultKind && result.index == argument.index) {
              found = true;
              CHECK(user.values[argument.value] ==
                    producer.values[result.value]);
            }
          CHECK(found);
        }
      };
      same(variant.dataGrad, ArgKind::Saved, variant.forward,
           ResultKind::Saved);
      same(variant.weightGrad, ArgKind::Saved, variant.forward,
           ResultKind::Saved);
      same(variant.weightGrad, ArgKind::Kept, variant.dataGrad,
           ResultKind::Kept);
      for (const Result &result : variant.weightGrad.results) {
        const Value &gradient = variant.weightGrad.values[result.value];
        CHECK(gradient.dims == kind.parameters[result.index].dims);
        CHECK(gradient.precision == Precision::Grad);
      }
    }
}

TEST_CASE("a program survives its file") {
  for (const std::string &text :
       {llama(48, 76, 5, 8, 4, 259, R"(, "attention_bias": true)"),
        gpt2 + "}"}) {
    Program program = programOf(text, 24), copy;
    Failure failure;
    std::string json = programJson(program);
    bool good = readProgram(json, "program.json", copy, failure);
    INFO((failure.messages.empty() ? "" : failure.messages[0].text));
    REQUIRE(good);
    CHECK(copy == program);
    CHECK(programJson(programOf(text, 24)) == json);
  }
}

TEST_CASE("published shapes become models of the nearest family") {
  Failure failure;
  Program program;
  // GPT-3 175B (Narayanan et al., SC21): 12 L h^2 (1 + 13/(12 h) + (V+s)/(12 L
  // h)) and, which their formula leaves out, the final norm.
  ModelShape shape;
  shape.name = "gpt3-175b";
  shape.layers = 96;
  shape.hidden = 12288;
  shape.ffn = 4 * 12288;
  shape.heads = 96;
  shape.vocab = 51200;
  shape.sequence = 2048;
  shape.tied = true;
  REQUIRE(programFromSpec(specFromShape(shape), 0, program, failure));
  const int64_t h = 12288;
  CHECK(parameterCount(program) ==
        96 * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
  CHECK(program.sequence == 2048);
  CHECK(program.headDim == 128);

  shape.gated = true;
  shape.tied = false;
  shape.kvHeads = 8;
  shape.ffn = 28672;
  shape.hidden = 8192;
  shape.heads = 64;
  shape.layers = 80;
  shape.vocab = 128256;
  REQUIRE(programFromSpec(specFromShape(shape), 0, program, failure));
  CHECK(parameterCount(program) == 70553706496);

  shape.kvHeads = 7;
  CHECK_FALSE(programFromSpec(specFromShape(shape), 0, program, failure));
  CHECK(failure.kind == FailureKind::Input);
  shape = {};
  CHECK_FALSE(programFromSpec(specFromShape(shape), 0, program, failure));
}

TEST_CASE("a missing file is reported") {
  Failure failure;
  Program program;
  CHECK_FALSE(loadProgram("/nowhere/config.json", 0, program, failure));
  CHECK(failure.kind == FailureKind::Input);
  REQUIRE(failure.messages.size() == 1);
}
