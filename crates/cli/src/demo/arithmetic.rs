//! Sums as people write them: numbers, `+ - * /` and parentheses.

/// How deep parentheses and signs may nest.
const MAX_DEPTH: usize = 32;

/// Computes an expression, or says why it cannot.
pub(crate) fn evaluate(text: &str) -> Result<f64, String> {
    let mut reader = ExpressionReader { rest: text, depth: 0 };
    let value = reader.sum()?;
    match reader.peek() {
        Some(other) => Err(format!("`{other}` is not expected there")),
        None if value.is_finite() => Ok(value),
        None => Err("the result is no number".into()),
    }
}

struct ExpressionReader<'a> {
    rest: &'a str,
    depth: usize,
}

impl ExpressionReader<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, wanted: &[char]) -> Option<char> {
        let found = self.peek().filter(|c| wanted.contains(c))?;
        self.rest = &self.rest[found.len_utf8()..];
        Some(found)
    }

    fn sum(&mut self) -> Result<f64, String> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let next = self.product()?;
            value = if sign == '+' { value + next } else { value - next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, String> {
        let mut value = self.factor()?;
        while let Some(sign) = self.take(&['*', '/']) {
            let next = self.factor()?;
            if sign == '/' && next == 0.0 {
                return Err("nothing can be divided by 0".into());
            }
            value = if sign == '*' { value * next } else { value / next };
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<f64, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("it nests too deeply".into());
        }
        let value = if self.take(&['-']).is_some() {
            -self.factor()?
        } else if self.take(&['(']).is_some() {
            let value = self.sum()?;
            self.take(&[')']).ok_or("a `)` is missing")?;
            value
        } else {
            self.number()?
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<f64, String> {
        let Some(first) = self.peek() else { return Err("it ends too early".into()) };
        let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let value = digits.parse().map_err(|_| format!("`{first}` is not expected there"))?;
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let told = |text: &str| evaluate(text).map_or_else(|why| why, |value| value.to_string());
        assert_eq!(told("6 * 7"), "42");
        assert_eq!(told("1 + 2 * 3 - 4 / 8"), "6.5");
        assert_eq!(told("-(2 + 3) * --2"), "-10");
        assert_eq!(told("1 / (2 - 2)"), "nothing can be divided by 0");
        assert_eq!(told("2 +"), "it ends too early");
        assert_eq!(told("(2"), "a `)` is missing");
        assert_eq!(told("2 2"), "`2` is not expected there");
        assert_eq!(told("1..2"), "`1` is not expected there");
        assert_eq!(told("two"), "`t` is not expected there");
        assert_eq!(told(&"9".repeat(400)), "the result is no number");
        assert_eq!(told(&"(".repeat(100_000)), "it nests too deeply");
    }
}
