//===- SmiTable.cpp - Reads the table of nvidia-smi topo -m ---------------===//
//
// A row and a column for each GPU and NIC, and behind them columns of affinity,
// which old drivers do not print. Cells stand between tabs or blanks, or
// between nothing where a terminal had no room: so cells are read as words of
// the table's own language rather than split. Lines around the table (a prompt,
// fences, a log) are passed over; a legend behind it names the devices of NICs.
//
//===----------------------------------------------------------------------===//
#include "compiler/Topology/Node.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace shardwright::topology {

using namespace cost;

namespace {

bool isDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }
bool isBlank(char c) { return c == ' ' || c == '\t'; }

void skipBlanks(std::string_view &text) {
  while (!text.empty() && isBlank(text.front()))
    text.remove_prefix(1);
}

std::string_view wordOf(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t"), text.size()));
}

size_t digitsAt(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size() && isDigit(text[end]))
    ++end;
  return end - begin;
}

/// A cell between two devices.
struct Cell {
  bool isSelf = false;
  int64_t links = 0; ///< of NVLink; 0: `path`
  Path path = Path::Sys;
  bool operator==(const Cell &other) const = default;
};

std::string shown(const Cell &cell) {
  if (cell.isSelf)
    return "X";
  return cell.links > 0 ? "NV" + std::to_string(cell.links)
                        : std::string(name(cell.path));
}

/// Takes a cell from the front of `text`.
std::optional<Cell> takeCell(std::string_view &text) {
  skipBlanks(text);
  if (text.rfind("NV", 0) == 0) {
    // No GPU has 100 links: more digits are those of the next column.
    const size_t digits = std::min<size_t>(digitsAt(text, 2), 2);
    if (digits == 0 || text[2] == '0')
      return std::nullopt;
    const int64_t links = std::stoll(std::string(text.substr(2, digits)));
    text.remove_prefix(2 + digits);
    return Cell{false, links, Path::Pix};
  }
  struct Word {
    std::string_view word;
    Cell cell;
  };
  static constexpr Word words[] = {
      {"X", {true, 0, Path::Pix}},      {"PIX", {false, 0, Path::Pix}},
      {"PXB", {false, 0, Path::Pxb}},   {"PHB", {false, 0, Path::Phb}},
      {"NODE", {false, 0, Path::Node}}, {"SYS", {false, 0, Path::Sys}},
      {"SOC", {false, 0, Path::Sys}}, // before driver 384
  };
  for (const Word &known : words)
    if (text.rfind(known.word, 0) == 0) {
      text.remove_prefix(known.word.size());
      return known.cell;
    }
  return std::nullopt;
}

constexpr std::string_view cpuTitle = "CPU Affinity",
                           numaTitle = "NUMA Affinity";

struct Header {
  std::vector<std::string> devices; ///< GPUs first
  size_t gpus = 0;
  std::vector<std::string_view> titles; ///< of the columns behind, that we read
};

/// Length of a device at the front of a word that has no blank behind it: of
/// names that end in a number, to where it ends.
size_t deviceLength(std::string_view word) {
  for (std::string_view stem : {"GPU", "NIC"})
    if (word.rfind(stem, 0) == 0)
      if (const size_t digits = digitsAt(word, stem.size()))
        return stem.size() + digits;
  // mlx5_10, and CPU, GPU or another name right behind it
  if (const size_t under = word.find('_');
      under != word.npos && word.rfind("mlx", 0) == 0)
    if (const size_t digits = digitsAt(word, under + 1)) {
      const size_t end = under + 1 + digits;
      for (std::string_view next : {"", "mlx", "CPU", "NUMA", "GPU", "NIC"})
        if (next.empty() ? end == word.size()
                         : word.substr(end).rfind(next, 0) == 0)
          return end;
    }
  return word.size();
}

/// The names of columns, if `line` is a header.
std::optional<Header> headerOf(std::string_view line) {
  Header header;
  for (skipBlanks(line); !line.empty(); skipBlanks(line)) {
    const std::string_view word = wordOf(line);
    if (word.rfind("CPU", 0) == 0 || word == "GPU" ||
        word.rfind("NUMA", 0) == 0 || word == "Node")
      break;
    const std::string device(word.substr(0, deviceLength(word)));
    const bool isGpu = device.rfind("GPU", 0) == 0;
    if (isGpu && device != "GPU" + std::to_string(header.devices.size()))
      return std::nullopt;
    if (!isGpu && header.devices.empty())
      return std::nullopt;
    std::string_view cell = device;
    if (takeCell(cell) && cell.empty())
      return std::nullopt; // a row
    header.gpus += isGpu;
    header.devices.push_back(device);
    line.remove_prefix(device.size());
  }
  if (header.gpus == 0)
    return std::nullopt;
  std::vector<std::pair<size_t, std::string_view>> places;
  for (std::string_view title : {cpuTitle, numaTitle})
    if (const size_t at = line.find(title); at != line.npos)
      places.push_back({at, title});
  std::sort(places.begin(), places.end());
  for (const auto &place : places)
    header.titles.push_back(place.second);
  // One GPU alone is no table yet: "GPU0" begins many a line.
  if (header.devices.size() == 1 && header.titles.empty())
    return std::nullopt;
  return header;
}

/// Reads the rows of one table.
class TableReader {
public:
  TableReader(const std::vector<std::string> &lines, size_t first,
              Header header, const std::string &file, Failure &failure)
      : lines(lines), first(first), header(std::move(header)), file(file),
        failure(failure), cells(this->header.devices.size()) {}

  bool read(Node &node) {
    for (const std::string &device : header.devices)
      addDevice(device, node);
    if (header.devices.size() > mostDevices)
      return complain(first, "expected at most " + std::to_string(mostDevices) +
                                 " columns, but got " +
                                 std::to_string(header.devices.size()));
    for (size_t line = first + 1; line < lines.size(); ++line) {
      if (headerOf(lines[line])) {
        node.notes.push_back("line " + std::to_string(line + 1) +
                             " begins another table, which is not read");
        break;
      }
      if (!readRow(line, node))
        return false;
      readLegend(lines[line], node);
    }
    return checkRows() && fill(node);
  }

private:
  const std::vector<std::string> &lines;
  const size_t first;
  const Header header;
  const std::string &file;
  Failure &failure;
  std::vector<std::vector<Cell>> cells; ///< of each row; empty: not seen

  bool complain(size_t line, const std::string &what) {
    return refuse(failure, Diag::wrong_topology,
                  file + ":" + std::to_string(line + 1) + ": " + what);
  }

  void addDevice(const std::string &device, Node &node) const {
    if (device.rfind("GPU", 0) == 0)
      node.gpus.emplace_back().name = device;
    else
      node.nics.emplace_back().name = device;
  }

  /// The device whose row begins with `text`, which is what is behind its name
  /// then; rows of devices that have no column are complained about.
  std::optional<size_t> rowOf(std::string_view &text) const {
    std::optional<size_t> found;
    for (size_t i = 0; i < header.devices.size(); ++i) {
      const std::string &device = header.devices[i];
      if (text.rfind(device, 0) != 0 ||
          (found && header.devices[*found].size() >= device.size()))
        continue;
      const std::string_view rest = text.substr(device.size());
      // Not NIC1 of NIC10, nor the legend's "NIC1: mlx5_1".
      if (rest.empty() || !(isDigit(rest.front()) || rest.front() == ':'))
        found = i;
    }
    if (found)
      text.remove_prefix(header.devices[*found].size());
    return found;
  }

  bool readRow(size_t line, Node &node) {
    std::string_view text = lines[line];
    skipBlanks(text);
    const std::optional<size_t> row = rowOf(text);
    if (!row) {
      if (text.rfind("GPU", 0) == 0 && digitsAt(text, 3) > 0)
        return complain(line,
                        "expected a row of a device that has a column, but "
                        "got '" +
                            cut(std::string(wordOf(text))) + "'");
      return true;
    }
    if (!cells[*row].empty())
      return complain(line, "expected one row of " + header.devices[*row] +
                                ", but got another");
    for (const std::string &column : header.devices) {
      skipBlanks(text);
      const std::string_view word = wordOf(text);
      const std::optional<Cell> cell = takeCell(text);
      if (!cell)
        return refuseCell(line, header.devices[*row], column, word);
      cells[*row].push_back(*cell);
    }
    if (*row < header.gpus)
      readAffinity(text, node.gpus[*row]);
    return true;
  }

  bool refuseCell(size_t line, const std::string &row,
                  const std::string &column, std::string_view word) {
    if (const std::string other = otherTable(word); !other.empty())
      return refuseOther(file, other, failure);
    return complain(
        line, "expected X, NV#, PIX, PXB, PHB, NODE or SYS between " + row +
                  " and " + column + ", but got " +
                  (word.empty() ? "the end of the line: is the table cut or "
                                  "wrapped? write it to a file"
                                : "'" + cut(std::string(word)) + "'"));
  }

  void readAffinity(std::string_view text, Gpu &gpu) const {
    for (std::string_view title : header.titles) {
      skipBlanks(text);
      const std::string_view word = wordOf(text);
      if (word != "N/A")
        (title == cpuTitle ? gpu.cpus : gpu.numa) = word;
      text.remove_prefix(word.size());
    }
  }

  /// "  NIC0: mlx5_0"
  void readLegend(std::string_view line, Node &node) const {
    skipBlanks(line);
    const size_t colon = line.find(':');
    if (colon == line.npos)
      return;
    for (Nic &nic : node.nics)
      if (line.substr(0, colon) == nic.name) {
        std::string_view device = line.substr(colon + 1);
        skipBlanks(device);
        nic.device = wordOf(device);
      }
  }

  /// Every GPU has a row, itself is X alone, and a pair is told alike twice.
  bool checkRows() {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (cells[i].empty() && i < header.gpus)
        return complain(first, "expected a row of " + header.devices[i] +
                                   " below the header, but got none");
      for (size_t j = 0; j < cells[i].size(); ++j) {
        const Cell &cell = cells[i][j];
        const std::string pair =
            header.devices[i] + " and " + header.devices[j];
        if (cell.isSelf != (i == j))
          return complain(first, "expected X between " + pair +
                                     (i == j ? ", but got " + shown(cell)
                                             : " nowhere, but got it"));
        if (cell.links > 0 && std::max(i, j) >= header.gpus)
          return complain(first, "expected no NVLink between " + pair +
                                     ", but got " + shown(cell));
        if (!cells[j].empty() && !(cells[j][i] == cell))
          return complain(first, "expected the same between " + pair +
                                     " in both rows, but got " + shown(cell) +
                                     " and " + shown(cells[j][i]));
      }
    }
    return true;
  }

  bool fill(Node &node) const {
    node.format = Format::SmiTable;
    for (size_t i = 0; i < header.gpus; ++i) {
      node.toGpu.emplace_back();
      node.toNic.emplace_back();
      for (size_t j = 0; j < cells[i].size(); ++j)
        if (j < header.gpus) {
          node.gpus[i].links.push_back(cells[i][j].links);
          node.toGpu[i].push_back(cells[i][j].path);
        } else {
          node.toNic[i].push_back(cells[i][j].path);
        }
    }
    return true;
  }
};

} // namespace

bool readSmiTable(std::string_view text, const std::string &file, Node &node,
                  Failure &failure) {
  const std::vector<std::string> lines = plainLines(text);
  Failure wrong;
  for (size_t line = 0; line < lines.size() && wrong.messages.empty(); ++line)
    if (std::optional<Header> header = headerOf(lines[line]))
      if (TableReader(lines, line, *std::move(header), file, wrong).read(node))
        return true;
  // Tables of others begin as ours.
  if (const std::string other = otherFormat(text); !other.empty())
    return refuseOther(file, other, failure);
  if (!wrong.messages.empty()) {
    failure = std::move(wrong);
    return false;
  }
  return refuse(failure, Diag::wrong_topology,
                file +
                    ": expected the table of nvidia-smi topo -m, whose first "
                    "line names GPU0, or XML, but got neither");
}

} // namespace shardwright::topology
