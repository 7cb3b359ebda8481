//===- Checkpoint.cpp - State of a training run in a file -----------------===//
#include "runtime/src/train/Checkpoint.h"
#include "runtime/src/train/Trainer.h"

#include <charconv>

namespace shardwright::runtime {
namespace {

constexpr const char *format = "shardwright.checkpoint/1";
constexpr const char *dataKey = "data";

FileTensors stateOf(const sw_rt_program &program, const Mesh &mesh) {
  std::vector<TensorSet> sets;
  for (const char *prefix : statePrefixes)
#define CHECKPOINT_TYPE(FIELD, NAME)                                           \
  sets.push_back({prefix, static_cast<sw_rt_dtype>(program.FIELD)});
#include "runtime/src/train/CheckpointFacts.def"
  return tensorsOf(program, mesh, sets);
}

std::string shapeText(const FileTensor &tensor) {
  std::string text = name(tensor.dtype);
  for (int64_t extent : tensor.shape)
    text += " x " + std::to_string(extent);
  return text;
}

/// Facts of a run that its data and the meaning of its state depend on.
std::map<std::string, std::string> factsOf(const sw_rt_program &program,
                                           const Options &options,
                                           const TokenFile &data,
                                           int64_t step) {
  return {
#define CHECKPOINT_NUMBER(FIELD, NAME) {#FIELD, std::to_string(program.FIELD)},
#include "runtime/src/train/CheckpointFacts.def"
      {"format", format},
      {"step", std::to_string(step)},
      {"seed", std::to_string(options.seed)},
      {dataKey, data.getFingerprint()}};
}

} // namespace

bool Checkpoint::open(const std::string &path, const sw_rt_program &program,
                      const Mesh &mesh, const Options &options,
                      const TokenFile &data, std::string &why) {
  if (!file.open(path, why))
    return false;
  const auto refuse = [&](const std::string &what) {
    why = "expected '" + path + "' to be a checkpoint " + what;
    return false;
  };
  const auto &metadata = file.getMetadata();
  const auto fact = [&](const std::string &key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  if (fact("format") != format)
    return refuse(std::string("(") + format + "), but its format is '" +
                  fact("format") + "'");
  const std::string text = fact("step");
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 1)
    return refuse("of some steps, but its step is '" + text + "'");
  for (const auto &[key, value] : factsOf(program, options, data, step))
    if (key == dataKey) {
      if (fact(key) == value || options.otherData)
        continue;
      if (fact(key).empty())
        return refuse("that says what data it was trained on, but it does not, "
                      "so nobody can tell whether '" +
                      data.getPath() + "' is that; --other-data goes on with "
                                       "it");
      why = "expected --data to be what '" + path + "' was trained on (" +
            fact(key) + "), but '" + data.getPath() + "' is other data (" +
            value + "); --other-data goes on with it";
      return false;
    } else if (fact(key) != value)
      return refuse("of " + key + " " + value + ", but it is of " + fact(key) +
                    ": the data of the steps would be other ones");
  const FileTensors &got = file.getTensors();
  for (const auto &[key, wanted] : stateOf(program, mesh)) {
    const auto found = got.find(key);
    if (found == got.end())
      return refuse(std::string("of ") + program.model + ", but it has no '" +
                    key + "'");
    if (found->second.dtype != wanted.dtype ||
        found->second.shape != wanted.shape)
      return refuse(std::string("of ") + program.model + " with '" + key +
                    "' of " + shapeText(wanted) + ", but it is of " +
                    shapeText(found->second));
  }
  return true;
}

sw_rt_status saveCheckpoint(sw_rt_context &context, const Trainer &trainer,
                            const Options &options, int64_t step) {
  const Stage &stage = trainer.getStage();
  const sw_rt_program &program = stage.program;
  const int64_t width =
      byteWidth(static_cast<sw_rt_dtype>(program.master_dtype));
  const FileTensors tensors = stateOf(program, context.mesh);
  Mirror optimizer(*context.device, trainer.optimizer(),
                   trainer.getArena().bytes(Arena::Optimizer), /*read=*/true);
  if (optimizer.getStatus() != SW_RT_OK)
    return optimizer.getStatus();
  return writeTensors(
      context, tensors, factsOf(program, options, trainer.getData(), step),
      "checkpoint",
      options.save, [&](char *data) {
        stage.forEachParameter([&](const ParameterView &view) {
          const ElementRange range = stage.ownedRange(view);
          int64_t part = 0;
          for (const char *prefix : statePrefixes)
            copyToWhole(stage, view, range, width,
                        optimizer.data() +
                            (part++ * stage.tables.arena.optimizer_elements +
                             stage.stateOffset(view)) *
                                width,
                        data + tensors.at(prefix + view.name()).offset);
        });
        return SW_RT_OK;
      });
}

} // namespace shardwright::runtime
