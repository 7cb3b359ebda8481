#include "tools/shardwright/Constraints.h"

#include "tools/shardwright/Inputs.h"

#include <algorithm>
#include <charconv>

namespace shardwright::tools {

using namespace cost;

bool parseInteger(const std::string &text, int64_t &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         !text.empty();
}

bool parseSchedule(const std::string &text, ScheduleKind &schedule) {
  std::string lower = text;
  for (char &c : lower)
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (ScheduleKind kind : scheduleKinds)
    if (lower == name(kind)) {
      schedule = kind;
      return true;
    }
  return false;
}

std::string scheduleNames() {
  std::string names;
  for (ScheduleKind kind : scheduleKinds)
    names += (names.empty() ? "" : ", ") + std::string(name(kind));
  return names;
}

bool parseRecompute(const std::string &text, Recompute &recompute,
                    int64_t &fullLayers) {
  fullLayers = -1;
  if (text == "none")
    recompute = Recompute::None;
  else if (text == "selective")
    recompute = Recompute::Selective;
  else if (text == "full")
    recompute = Recompute::Full;
  else if (text.rfind("full:", 0) == 0 &&
           parseInteger(text.substr(5), fullLayers) && fullLayers >= 1)
    recompute = Recompute::Full;
  else
    return false;
  return true;
}

bool parseCpKind(const std::string &text, CpKind &kind) {
  for (CpKind known : cpKinds)
    if (text == name(known)) {
      kind = known;
      return true;
    }
  return false;
}

bool parseDTypes(const std::string &text, DTypes &dtypes) {
  if (text == "bf16")
    dtypes = DTypes();
  else if (text == "f32")
    dtypes = {DType::F32, DType::F32, DType::F32, DType::F32, DType::F32};
  else if (text == "f64")
    dtypes = {DType::F64, DType::F64, DType::F64, DType::F64, DType::F64};
  else
    return false;
  return true;
}

namespace {

bool parseBoolean(const std::string &text, int64_t &value) {
  for (const char *yes : {"1", "true", "yes", "on"})
    if (text == yes) {
      value = 1;
      return true;
    }
  for (const char *no : {"0", "false", "no", "off"})
    if (text == no) {
      value = 0;
      return true;
    }
  return false;
}

struct Spelling {
  const char *text;
  Field field;
};
constexpr Spelling spellings[] = {
    {"dp", Field::Dp},
    {"tp", Field::Tp},
    {"pp", Field::Pp},
    {"ep", Field::Ep},
    {"etp", Field::Etp},
    {"cp", Field::Cp},
    {"cp_kind", Field::CpKind},
    {"zero_ranks", Field::ZeroRanks},
    {"offload", Field::Offload},
    {"order", Field::Order},
    {"sp", Field::Sp},
    {"zero", Field::Zero},
    {"microbatch", Field::MicroBatch},
    {"micro_batch", Field::MicroBatch},
    {"micro-batch", Field::MicroBatch},
    {"vp", Field::Chunks},
    {"schedule", Field::Schedule},
    {"recompute", Field::Recompute},
    {"first_layers", Field::FirstLayers},
    {"last_layers", Field::LastLayers},
};

class Reader {
public:
  Reader(bool fix, Ranges &ranges, Failure &failure)
      : fix(fix), flag(fix ? "--fix" : "--max"), ranges(ranges),
        failure(failure) {}

  void read(const std::string &text) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 ||
        equals + 1 == text.size())
      return complain(text, "expected field=value, such as tp=8");
    std::string key = text.substr(0, equals);
    std::string value = text.substr(equals + 1);
    auto found = std::find_if(
        std::begin(spellings), std::end(spellings),
        [&](const Spelling &spelling) { return key == spelling.text; });
    if (found == std::end(spellings)) {
      std::vector<std::string> names;
      for (const Spelling &spelling : spellings)
        names.push_back(spelling.text);
      return complain(text,
                      "expected a field of a plan (dp, tp, pp, ep, etp, sp, "
                      "cp, cp_kind, zero, zero_ranks, offload, order, "
                      "microbatch, schedule, vp, recompute, first_layers, "
                      "last_layers), but got '" +
                          key + "'" + nearest(key, names));
    }
    set(text, found->field, value);
  }

private:
  void set(const std::string &text, Field field, const std::string &value) {
    int64_t number = 0;
    switch (field) {
    case Field::Sp:
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (!parseBoolean(value, number))
        return complain(text, "expected on or off, but got '" + value + "'");
      return pin(text, field, number);
    case Field::Offload:
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (!parseBoolean(value, number))
        return complain(text, "expected on or off, but got '" + value + "'");
      return pin(text, field, number);
    case Field::Order:
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (value != "pp-dp" && value != "dp-pp")
        return complain(text, "expected pp-dp or dp-pp (outer to inner), but "
                              "got '" + value + "'");
      return pin(text, field,
                 static_cast<int64_t>(value == "pp-dp" ? MeshOrder::PpDp
                                                       : MeshOrder::DpPp));
    case Field::CpKind: {
      CpKind kind;
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (!parseCpKind(value, kind))
        return complain(text, "expected p2p, all_gather or a2a, but got '" +
                                  value + "'");
      return pin(text, field, static_cast<int64_t>(kind));
    }
    case Field::ZeroRanks:
      if (!parseInteger(value, number) || number < 0)
        return complain(text,
                        "expected 0 (all data ranks) or a number of them, "
                        "but got '" +
                            value + "'");
      break;
    case Field::Schedule: {
      ScheduleKind schedule;
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (!parseSchedule(value, schedule))
        return complain(text, "expected one of " + scheduleNames() +
                                  ", but got '" + value + "'");
      return pin(text, field, static_cast<int64_t>(schedule));
    }
    case Field::Recompute: {
      Recompute recompute;
      int64_t full = -1;
      if (!fix)
        return complain(text, "--max takes fields with a size");
      if (!parseRecompute(value, recompute, full))
        return complain(text, "expected none, selective, full or full:N, but "
                              "got '" + value + "'");
      pin(text, Field::FullLayers, full);
      return pin(text, field, static_cast<int64_t>(recompute));
    }
    case Field::Zero:
      if (!parseInteger(value, number) || number < 0 || number > 3)
        return complain(text, "expected 0, 1, 2 or 3, but got '" + value + "'");
      break;
    case Field::Dp:
    case Field::Tp:
    case Field::Pp:
    case Field::Ep:
    case Field::Etp:
    case Field::Cp:
    case Field::MicroBatch:
    case Field::Chunks:
    case Field::FullLayers:
    case Field::FirstLayers:
    case Field::LastLayers:
      if (!parseInteger(value, number) || number < 1)
        return complain(text, "expected a positive integer, but got '" + value +
                                  "'");
      break;
    }
    if (fix)
      return pin(text, field, number);
    Range &range = ranges[static_cast<int>(field)];
    if (range.least == range.most && range.least > number)
      return complain(text,
                      "--fix pins the field to " + std::to_string(range.least),
                      Diag::conflicting_flags);
    range.most = std::min(range.most, number);
  }

  void pin(const std::string &text, Field field, int64_t value) {
    Range &range = ranges[static_cast<int>(field)];
    if (range.least == range.most && range.least != value)
      return complain(text, "the field is already fixed to another value",
                      Diag::conflicting_flags);
    range = {value, value};
  }

  void complain(const std::string &text, const std::string &message,
                Diag id = Diag::flag_value) {
    refuse(failure, id, flag + " " + text + ": " + message);
  }

  bool fix;
  std::string flag;
  Ranges &ranges;
  Failure &failure;
};

} // namespace

bool parseConstraints(const std::vector<std::string> &texts, bool fix,
                      Ranges &ranges, Failure &failure) {
  const size_t before = failure.messages.size();
  Reader reader(fix, ranges, failure);
  for (const std::string &text : texts)
    for (size_t start = 0; start <= text.size();) {
      size_t comma = std::min(text.find(',', start), text.size());
      reader.read(text.substr(start, comma - start));
      start = comma + 1;
    }
  return failure.messages.size() == before;
}

} // namespace shardwright::tools
