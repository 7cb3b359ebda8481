#include "tools/shardwright/Constraints.h"

#include "tools/shardwright/Inputs.h"
#include "tools/shardwright/Words.h"

#include <algorithm>
#include <sstream>
#include <array>
#include <charconv>
#include <cmath>

namespace shardwright::tools {

using namespace cost;

bool parseInteger(const std::string &text, int64_t &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         !text.empty();
}

bool parseNumber(const std::string &text, double &value) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() &&
         std::isfinite(value);
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

bool parseStages(const std::string &text, std::vector<int64_t> &counts) {
  counts.clear();
  std::istringstream runs(text + ",");
  for (std::string run; std::getline(runs, run, ',');) {
    const size_t times = std::min(run.find('x'), run.size());
    int64_t count = 0, stages = 1;
    if (!parseInteger(run.substr(0, times), count) || count < 0 ||
        (times < run.size() && !parseInteger(run.substr(times + 1), stages)) ||
        stages < 1 ||
        stages > maxDegree - static_cast<int64_t>(counts.size()))
      return false;
    counts.insert(counts.end(), static_cast<size_t>(stages), count);
  }
  return true;
}

bool parseRecompute(const std::string &text, Recompute &recompute,
                    std::vector<int64_t> &full) {
  full.clear();
  recompute = Recompute::Full;
  if (text.rfind("full:", 0) == 0)
    return parseStages(text.substr(5), full);
  for (Recompute policy : {Recompute::None, Recompute::Selective, Recompute::Full})
    if (text == name(policy)) {
      recompute = policy;
      return true;
    }
  return false;
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
  bool shown = true; ///< in help; else another word for the same
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
    {"micro_batch", Field::MicroBatch, false},
    {"micro-batch", Field::MicroBatch, false},
    {"vp", Field::Chunks},
    {"microbatch_group", Field::Group},
    {"schedule", Field::Schedule},
    {"recompute", Field::Recompute},
    {"first_layers", Field::FirstLayers},
    {"last_layers", Field::LastLayers},
};

/// What plans print beside the fields, and what says it.
constexpr std::pair<const char *, const char *> askedElsewhere[] = {
    {"kv_replicas", "tp"},
    {"padded_vocab", "tp"},
    {"products", "--products"},
    {"gradients", "--gradients"},
    {"microbatches", "dp and microbatch, with --global-batch,"},
    {"global_batch", "--global-batch"},
    {"sequence", "--sequence"},
    {"recompute_layers_per_stage", "recompute"},
    {"layers_per_stage", "first_layers and last_layers"},
};

const char *flagOf(Constraint kind) {
  switch (kind) {
  case Constraint::Fix: return "--fix";
  case Constraint::Max: return "--max";
  case Constraint::Forbid: return "--forbid";
  case Constraint::WhyNot: return "--why-not";
  }
  return "";
}

/// What one "field=value" says.
struct Said {
  Constraint kind;
  int64_t value;
  std::string text; ///< with its flag
  int64_t most;     ///< of a range that begins with `value`
};

/// What a stage recomputes: "full" all its layers (-1), "full:3", "full:0-3".
bool parseFull(const std::string &text, int64_t &least, int64_t &most) {
  least = most = -1;
  if (text == "full")
    return true;
  if (text.rfind("full:", 0) != 0)
    return false;
  const size_t dash = text.find('-');
  if (!parseInteger(text.substr(5, dash - 5), least) || least < 0)
    return false;
  most = least;
  return (dash == std::string::npos ||
          parseInteger(text.substr(dash + 1), most)) &&
         most >= std::max<int64_t>(1, least);
}

class Reader {
public:
  explicit Reader(Failure &failure) : failure(failure) {}

  void read(Constraint constraint, const std::string &text) {
    kind = constraint;
    size_t equals = text.find('=');
    // The comma of a list of stages ends what is said of a field.
    std::vector<int64_t> stages;
    if (equals == std::string::npos && parseStages(text, stages) &&
        before.rfind("recompute=full:", 0) == 0) {
      if (!hasList)
        complain(before + "," + text, "expected full:N or full:N-M, the least "
                                      "and the most of any stage");
      hasList = true;
      return;
    }
    before = text;
    hasList = false;
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
      for (const auto &[field, asks] : askedElsewhere)
        if (key == field)
          return complain(text, asks + std::string(" says that"));
      return complain(text, "expected a field of a plan (" + fieldNames() +
                                "), but got '" + key + "'" +
                                nearest(key, names));
    }
    set(text, found->field, value);
  }

  /// The ranges of all that was read; fields that nothing can obey are told
  /// with everything that was said of them.
  void apply(Ranges &ranges) {
    for (int field = 0; field < numFields; ++field) {
      const std::vector<Said> &all = said[static_cast<size_t>(field)];
      Range &range = ranges[static_cast<size_t>(field)];
      for (const Said &one : all)
        switch (one.kind) {
        case Constraint::Fix:
        case Constraint::WhyNot:
          range.least = std::max(range.least, one.value);
          range.most = std::min(range.most, one.most);
          break;
        case Constraint::Max:
          range.most = std::min(range.most, one.value);
          break;
        case Constraint::Forbid:
          range.without.push_back(one.value);
          break;
        }
      std::sort(range.without.begin(), range.without.end());
      if (field == static_cast<int>(Field::FullLayers) || !empty(field, range))
        continue;
      std::string texts;
      for (const Said &one : all)
        texts += (texts.empty() ? "" : ", ") + one.text;
      refuse(failure, Diag::conflicting_flags,
             texts + ": no plan obeys all of them");
    }
    // "full" and "full:2" are the same policy and differ in this field alone.
    const Range &full = ranges[static_cast<size_t>(Field::FullLayers)];
    const Range &policy = ranges[static_cast<size_t>(Field::Recompute)];
    if (full.least > full.most && policy.least <= policy.most) {
      std::string texts;
      for (const Said &one : said[static_cast<size_t>(Field::FullLayers)])
        texts += (texts.empty() ? "" : ", ") + one.text;
      refuse(failure, Diag::conflicting_flags,
             texts + ": no plan obeys all of them");
    }
  }

private:
  static bool empty(int field, const Range &range) {
    if (range.least > range.most)
      return true;
    if (range.least == range.most)
      return !range.contains(range.least);
    const auto noneOf = [&](int64_t from, int64_t to) {
      for (int64_t value = from; value <= to; ++value)
        if (range.contains(value))
          return false;
      return true;
    };
    int64_t first = 1;
    switch (static_cast<Field>(field)) {
    case Field::Sp:
    case Field::Offload:
      return noneOf(0, 1);
    case Field::Order:
      return noneOf(0, static_cast<int64_t>(MeshOrder::DpPp));
    case Field::CpKind:
      return noneOf(noCpKind, static_cast<int64_t>(CpKind::AllToAll));
    case Field::Zero:
      return noneOf(0, 3);
    case Field::Recompute:
      return noneOf(0, static_cast<int64_t>(Recompute::Full));
    case Field::Schedule:
      return std::none_of(std::begin(scheduleKinds), std::end(scheduleKinds),
                          [&](ScheduleKind schedule) {
                            return range.contains(
                                static_cast<int64_t>(schedule));
                          });
    case Field::ZeroRanks: // all data ranks
    case Field::Group:     // schedules without
      first = 0;
      break;
    default: // degrees and counts
      break;
    }
    return range.most < std::numeric_limits<int64_t>::max() &&
           range.most - first < static_cast<int64_t>(range.without.size()) &&
           noneOf(std::max(first, range.least), range.most);
  }

  void set(const std::string &text, Field field, const std::string &value) {
    int64_t number = 0;
    switch (field) {
    case Field::Sp:
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      if (!parseBoolean(value, number))
        return complain(text, "expected on or off, but got '" + value + "'");
      return say(text, field, number);
    case Field::Offload:
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      if (value == "none" || value == "optimizer")
        number = value == "optimizer";
      else if (!parseBoolean(value, number))
        return complain(text,
                        "expected none or optimizer, but got '" + value + "'" +
                            (value == "activations" || value == "both"
                                 ? "; activations on the host are not searched"
                                 : ""));
      return say(text, field, number);
    case Field::Order:
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      if (value != "pp-dp" && value != "dp-pp")
        return complain(text, "expected pp-dp or dp-pp (outer to inner), but "
                              "got '" + value + "'");
      return say(text, field,
                 static_cast<int64_t>(value == "pp-dp" ? MeshOrder::PpDp
                                                       : MeshOrder::DpPp));
    case Field::CpKind: {
      CpKind cpKind;
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      if (value == "none") // cp = 1
        return say(text, field, noCpKind);
      if (!parseCpKind(value, cpKind))
        return complain(text,
                        "expected p2p, all_gather, a2a or none, but got '" +
                            value + "'");
      return say(text, field, static_cast<int64_t>(cpKind));
    }
    case Field::ZeroRanks:
      if (!parseInteger(value, number) || number < 0)
        return complain(text,
                        "expected 0 (all data ranks) or a number of them, "
                        "but got '" +
                            value + "'");
      break;
    case Field::Group:
      if (!parseInteger(value, number) || number < 0)
        return complain(text, "expected 0 (schedules without) or a number of "
                              "microbatches, but got '" + value + "'");
      break;
    case Field::Schedule: {
      ScheduleKind schedule;
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      if (!parseSchedule(value, schedule))
        return complain(text, "expected one of " + namesOf(scheduleKinds) +
                                  ", but got '" + value + "'");
      return say(text, field, static_cast<int64_t>(schedule));
    }
    case Field::Recompute: {
      if (kind == Constraint::Max)
        return complain(text, "--max takes fields with a size");
      std::vector<int64_t> full;
      Recompute recompute = Recompute::Full;
      int64_t least = -1, most = -1;
      if (!parseFull(value, least, most) &&
          (!parseRecompute(value, recompute, full) || !full.empty()))
        return complain(text, std::string("expected none, selective") +
                                  (kind == Constraint::Forbid
                                       ? " or full"
                                       : ", full, full:N or full:N-M") +
                                  ", but got '" + value + "'");
      if (kind == Constraint::Forbid && least >= 0)
        return complain(text, "expected none, selective or full, but got '" +
                                  value + "'");
      if (kind != Constraint::Forbid)
        say(text, Field::FullLayers, least, most);
      return say(text, field, static_cast<int64_t>(recompute));
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
    say(text, field, number);
  }

  void say(const std::string &text, Field field, int64_t value) {
    say(text, field, value, value);
  }
  void say(const std::string &text, Field field, int64_t value, int64_t most) {
    said[static_cast<size_t>(field)].push_back(
        {kind, value, std::string(flagOf(kind)) + " " + text, most});
  }

  void complain(const std::string &text, const std::string &message,
                Diag id = Diag::flag_value) {
    refuse(failure, id,
           std::string(flagOf(kind)) + " " + text + ": " + message);
  }

  std::string before;    ///< what was read last with a value
  bool hasList = false; ///< numbers of stages follow it
  Constraint kind = Constraint::Fix;
  std::array<std::vector<Said>, numFields> said;
  Failure &failure;
};

} // namespace

std::string ConstraintTexts::text() const {
  std::string all;
  const auto add = [&](Constraint kind, const std::vector<std::string> &list) {
    for (const std::string &one : list)
      all += (all.empty() ? "" : ", ") + std::string(flagOf(kind)) + " " + one;
  };
  add(Constraint::Fix, fix);
  add(Constraint::Max, max);
  add(Constraint::Forbid, forbid);
  add(Constraint::WhyNot, whyNot);
  return all;
}

std::string constraintsOf(const ConstraintTexts &texts, Field field) {
  std::string all;
  const auto add = [&](Constraint kind, std::vector<std::string> ConstraintTexts::*list) {
    for (const std::string &text : texts.*list)
      for (size_t start = 0; start <= text.size();) {
        const size_t comma = std::min(text.find(',', start), text.size());
        ConstraintTexts one;
        (one.*list).push_back(text.substr(start, comma - start));
        start = comma + 1;
        Ranges ranges;
        Failure ignored;
        if (parseConstraints(one, ranges, ignored) &&
            !(ranges[static_cast<size_t>(field)] == Range()))
          all += (all.empty() ? "" : ", ") + std::string(flagOf(kind)) + " " +
                 (one.*list).front();
      }
  };
  add(Constraint::Fix, &ConstraintTexts::fix);
  add(Constraint::Max, &ConstraintTexts::max);
  add(Constraint::Forbid, &ConstraintTexts::forbid);
  add(Constraint::WhyNot, &ConstraintTexts::whyNot);
  return all;
}

std::string valueText(Field field, int64_t value) {
  std::string text = std::to_string(value);
  switch (field) {
  case Field::Sp:
    text = value ? "on" : "off";
    break;
  case Field::Offload:
    text = value ? "optimizer" : "none";
    break;
  case Field::CpKind:
    text = value == noCpKind ? "none" : name(static_cast<CpKind>(value));
    break;
  case Field::Order:
    text = static_cast<MeshOrder>(value) == MeshOrder::PpDp ? "pp-dp" : "dp-pp";
    break;
  case Field::Schedule:
    text = name(static_cast<ScheduleKind>(value));
    break;
  case Field::Recompute:
    text = name(static_cast<Recompute>(value));
    break;
  case Field::FullLayers:
    return value < 0 ? "recompute = full" : "recompute = full:" + text;
  default:
    break;
  }
  return std::string(name(field)) + " = " + text;
}

std::string fieldNames() {
  std::string names;
  for (const Spelling &spelling : spellings)
    if (spelling.shown)
      names += (names.empty() ? "" : ", ") + std::string(spelling.text);
  return names;
}

bool parseConstraints(const ConstraintTexts &texts, Ranges &ranges,
                      Failure &failure) {
  const size_t before = failure.messages.size();
  Reader reader(failure);
  const auto read = [&](Constraint kind, const std::vector<std::string> &list) {
    for (const std::string &text : list)
      for (size_t start = 0; start <= text.size();) {
        size_t comma = std::min(text.find(',', start), text.size());
        reader.read(kind, text.substr(start, comma - start));
        start = comma + 1;
      }
  };
  read(Constraint::Fix, texts.fix);
  read(Constraint::Max, texts.max);
  read(Constraint::Forbid, texts.forbid);
  read(Constraint::WhyNot, texts.whyNot);
  reader.apply(ranges);
  return failure.messages.size() == before;
}

} // namespace shardwright::tools
