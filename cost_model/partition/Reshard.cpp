#include "cost_model/partition/Reshard.h"

#include <algorithm>
#include <cassert>

namespace shardwright::cost {

std::string_view name(Collective collective) {
  switch (collective) {
  case Collective::AllReduce: return "all_reduce";
  case Collective::AllGather: return "all_gather";
  case Collective::ReduceScatter: return "reduce_scatter";
  case Collective::AllToAll: return "all_to_all";
  case Collective::Send: return "send";
  case Collective::Recv: return "recv";
  case Collective::Slice: return "slice";
  }
  return "";
}

namespace {

bool contains(const Axes &axes, Axis axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

bool isPrefix(const Axes &prefix, const Axes &axes) {
  return prefix.size() <= axes.size() &&
         std::equal(prefix.begin(), prefix.end(), axes.begin());
}

bool usesAxis(const Encoding &encoding, Axis axis) {
  return std::any_of(
      encoding.dims.begin(), encoding.dims.end(),
      [&](const Axes &axes) { return contains(axes, axis); });
}

std::string listOf(const Axes &axes) {
  std::string text = "[";
  for (Axis axis : axes)
    text += (text.size() > 1 ? "," : "") + std::to_string(axis);
  return text + "]";
}

/// Axes that `wanted` adds behind those of `have` and that are partial in
/// `produced`: what one reduce-scatter of this dim can finish.
Axes scatteredAxes(const Encoding &produced,
                                const Encoding &wanted, size_t dim) {
  Axes axes;
  const Axes &have = produced.dims[dim], &want = wanted.dims[dim];
  if (produced.partial != Partial::Sum || !isPrefix(have, want))
    return axes;
  for (size_t i = have.size();
       i < want.size() && contains(produced.partialAxes, want[i]); ++i)
    axes.push_back(want[i]);
  return axes;
}

/// Appends a step that reads value `source` and returns its number.
int append(ReshardPlan &plan, Collective collective, Axes axes,
           int dim, int source, Encoding result) {
  plan.steps.push_back(
      {collective, std::move(axes), dim, source, std::move(result)});
  return static_cast<int>(plan.steps.size());
}

/// Appends the steps that clear the partial of `produced` and returns the
/// number of the finished value, whose encoding becomes `finished`.
int finish(const Encoding &produced, const std::vector<Encoding> &wanted,
           ReshardPlan &plan, Encoding &finished) {
  const Encoding *target = nullptr;
  size_t most = 0;
  for (const Encoding &candidate : wanted) {
    size_t scattered = 0;
    for (size_t dim = 0; dim < produced.dims.size(); ++dim)
      scattered += scatteredAxes(produced, candidate, dim).size();
    if (candidate.partial == Partial::None && scattered > most) {
      most = scattered;
      target = &candidate;
    }
  }
  finished = produced;
  int number = 0;
  for (size_t dim = 0; target && dim < produced.dims.size(); ++dim) {
    Axes axes = scatteredAxes(produced, *target, dim);
    if (axes.empty())
      continue;
    for (Axis axis : axes) {
      finished.dims[dim].push_back(axis);
      finished.partialAxes.erase(axis);
    }
    if (finished.partialAxes.empty())
      finished.partial = Partial::None;
    number = append(plan, Collective::ReduceScatter, axes,
                    static_cast<int>(dim), number, finished);
  }
  if (!finished.partialAxes.empty()) {
    Axes axes = std::move(finished.partialAxes);
    finished.partialAxes.clear();
    finished.partial = Partial::None;
    number = append(plan, Collective::AllReduce, axes, -1, number, finished);
  }
  return number;
}

/// The dim that gives up just `axes`, which `dim` wants; -1 if none does.
int givesUp(const Encoding &now, const Encoding &want,
            const Axes &axes, size_t dim) {
  for (size_t other = 0; other < now.dims.size(); ++other) {
    const Axes &from = now.dims[other], &to = want.dims[other];
    if (other != dim && isPrefix(to, from) &&
        Axes(from.begin() + to.size(), from.end()) == axes)
      return static_cast<int>(other);
  }
  return -1;
}

/// Appends the steps from `have` (value `number`) to `want`, none partial.
bool serve(const Encoding &have, int number, const Encoding &want,
           ReshardPlan &plan, int &served, std::string &why) {
  Encoding now = have;
  for (size_t dim = 0; dim < have.dims.size(); ++dim) {
    const Axes &from = have.dims[dim], &to = want.dims[dim];
    if (!isPrefix(from, to) && !isPrefix(to, from)) {
      why = "dim " + std::to_string(dim) + " moves from mesh axes " +
            listOf(from) + " to " + listOf(to) +
            ", which no collective here can do";
      return false;
    }
    if (to.size() <= from.size())
      continue;
    Axes axes(to.begin() + from.size(), to.end());
    if (const int other = givesUp(now, want, axes, dim); other >= 0) {
      now.dims[dim] = to;
      now.dims[static_cast<size_t>(other)] =
          want.dims[static_cast<size_t>(other)];
      number = append(plan, Collective::AllToAll, axes, static_cast<int>(dim),
                      number, now);
      continue;
    }
    for (Axis axis : axes)
      if (usesAxis(now, axis)) {
        why = "mesh axis " + std::to_string(axis) + " moves to dim " +
              std::to_string(dim) +
              " from another dim, which does not give it up alone";
        return false;
      }
    now.dims[dim] = to;
    number = append(plan, Collective::Slice, axes, static_cast<int>(dim),
                    number, now);
  }
  if (have.routed != want.routed) {
    if (!have.routed.empty() && !want.routed.empty()) {
      why = "rows move from owners over mesh axes " + listOf(have.routed) +
            " to owners over " + listOf(want.routed) +
            ", which no collective here can do";
      return false;
    }
    Axes axes = want.routed.empty() ? have.routed : want.routed;
    now.routed = want.routed;
    number = append(plan, Collective::AllToAll, axes, 0, number, now);
  }
  for (size_t dim = 0; dim < have.dims.size(); ++dim) {
    const Axes from = now.dims[dim], &to = want.dims[dim];
    if (to.size() >= from.size())
      continue;
    Axes axes(from.begin() + to.size(), from.end());
    now.dims[dim] = to;
    number = append(plan, Collective::AllGather, axes, static_cast<int>(dim),
                    number, now);
  }
  served = number;
  return true;
}

} // namespace

bool planReshards(const Encoding &produced, const std::vector<Encoding> &wanted,
                  ReshardPlan &plan, std::string &why) {
  plan.steps.clear();
  plan.served.assign(wanted.size(), 0);
  bool mustFinish = false;
  for (const Encoding &encoding : wanted) {
    if (encoding.dims.size() != produced.dims.size()) {
      why = "a value is wanted with another rank than it has";
      return false;
    }
    if (encoding == produced)
      continue;
    if (encoding.partial != Partial::None) {
      why = "a value is wanted as another partial than it is";
      return false;
    }
    mustFinish = mustFinish || produced.partial != Partial::None;
  }

  Encoding finished = produced;
  int number = mustFinish ? finish(produced, wanted, plan, finished) : 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == produced)
      continue;
    if (wanted[i] == finished) {
      plan.served[i] = number;
      continue;
    }
    size_t same = 0;
    while (!(wanted[same] == wanted[i]))
      ++same;
    if (same < i)
      plan.served[i] = plan.served[same];
    else if (!serve(finished, number, wanted[i], plan, plan.served[i], why))
      return false;
  }
  return true;
}

} // namespace shardwright::cost
