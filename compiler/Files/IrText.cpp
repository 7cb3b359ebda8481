#include "compiler/Files/IrText.h"

#include <algorithm>

namespace shardwright {

namespace {

/// Reads the text as MLIR's lexer does, as far as brackets go.
class Scanner {
public:
  explicit Scanner(std::string_view text) : text(text) {}

  std::string trap() {
    while (at < text.size()) {
      const char c = text[at];
      if (c == '\n')
        ++line;
      if (c == '"') {
        skipString();
      } else if (text.substr(at, 2) == "//") {
        at = std::min(text.find('\n', at), text.size());
      } else if (text.substr(at, 2) == "->" || text.substr(at, 2) == ">=") {
        at += 2; // no brackets
      } else {
        // A sign before a sign is a level, too, of an affine expression.
        signs = c == '-' ? signs + 1 : c == ' ' ? signs : 0;
        depth += (c == '(' || c == '[' || c == '{');
        depth -= (c == ')' || c == ']' || c == '}') && depth > 0;
        angles += c == '<';
        angles -= c == '>' && angles > 0;
        if (depth + angles > deepestIr || signs > deepestIr)
          return where() + "expected at most " + std::to_string(deepestIr) +
                 " levels of brackets, but got more";
        if (c == '<' && isBehind("array")) {
          const std::string_view type = wordBehind();
          if (type.size() < 2 || (type[0] != 'i' && type[0] != 'f') ||
              type[1] < '0' || type[1] > '9')
            return where() +
                   "expected an integer or a float type behind "
                   "'array<', but got '" +
                   std::string(type) + "'";
        }
        ++at;
      }
    }
    return "";
  }

private:
  std::string where() const { return std::to_string(line) + ": error: "; }

  void skipString() {
    for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at)
      at += text[at] == '\\' && at + 1 < text.size() && text[at + 1] != '\n';
    at += at < text.size() && text[at] == '"';
  }

  // MLIR 22 takes the bit width of a dense array's element type before it asks
  // whether there is one, and whether it has a width: `array<index`.

  bool isBehind(std::string_view word) const {
    const std::string_view before = text.substr(0, at);
    const size_t end = before.find_last_not_of(blanks) + 1;
    return before.substr(0, end).ends_with(word);
  }
  std::string_view wordBehind() const {
    const size_t begin =
        std::min(text.find_first_not_of(blanks, at + 1), text.size());
    return text.substr(begin, text.find_first_of(":,> \n", begin) - begin);
  }

  static constexpr std::string_view blanks = " \t\r\n";
  std::string_view text;
  size_t at = 0;
  int line = 1, depth = 0, angles = 0, signs = 0;
};

} // namespace

std::string irTrap(std::string_view text) { return Scanner(text).trap(); }

} // namespace shardwright
