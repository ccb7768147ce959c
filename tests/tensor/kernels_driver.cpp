// Runs kernels of the baseline on odd sizes and compares them with plain loops over doubles; prints what differs.
//
// For processors without a Python here: tests/tensor/test_kernel_objects.py runs it in an emulator.

#include <cmath>
#include <cstdio>
#include <vector>

#include "tensor/kernels/affine.h"
#include "tensor/kernels/exponentials.h"
#include "tensor/kernels/normalization.h"
#include "tensor/kernels/products.h"
#include "tensor/kernels/softmax.h"

namespace kernels = disposescope::kernels;
using std::ptrdiff_t;

template <typename T>
struct Check {
    static constexpr int dtype = sizeof(T) == 4 ? 0 : 1;
    static constexpr double tolerance = sizeof(T) == 4 ? 2e-6 : 1e-13;
    int wrong = 0;

    static std::vector<T> numbers(ptrdiff_t n, unsigned seed) {
        std::vector<T> x(n);
        for (T& value : x) {
            seed = seed * 1664525u + 1013904223u;
            value = static_cast<T>(seed >> 8) / static_cast<T>(1 << 23) - T(1);
        }
        return x;
    }

    // `terms` are added up in each element: so many roundings, of a sum that grows as a random walk does.
    void compare(const char* name, ptrdiff_t size, const std::vector<T>& found, const std::vector<double>& expected,
                 ptrdiff_t terms = 1) {
        const double most = tolerance * std::sqrt(double(terms));
        for (std::size_t i = 0; i < found.size(); ++i)
            if (!(std::fabs(found[i] - expected[i]) <= most * (1 + std::fabs(expected[i])))) {
                std::printf("%s %td: element %zu is %.17g, not %.17g\n", name, size, i, double(found[i]), expected[i]);
                ++wrong;
                return;
            }
    }

    void exponentials(ptrdiff_t n) {
        const auto x = numbers(n, 1);
        std::vector<T> out(n);
        std::vector<double> exps(n), tanhs(n);
        for (ptrdiff_t i = 0; i < n; ++i) exps[i] = std::exp(double(x[i])), tanhs[i] = std::tanh(double(x[i]));
        const auto run = [&](kernels::Loops loops) {
            kernels::Operands operands{x.data(), nullptr, out.data(), 0, 1};
            (dtype == 0 ? loops.of_floats : loops.of_doubles)(&operands, 0, n);
        };
        run(kernels::exponentials_kernels_of(0)->exp);
        compare("exp", n, out, exps);
        run(kernels::exponentials_kernels_of(0)->tanh);
        compare("tanh", n, out, tanhs);
    }

    void softmax(ptrdiff_t rows, ptrdiff_t columns) {
        const auto x = numbers(rows * columns, 2);
        std::vector<T> out(x.size());
        std::vector<double> shares(x.size()), logs(x.size());
        for (ptrdiff_t i = 0; i < rows; ++i) {
            double total = 0;
            for (ptrdiff_t j = 0; j < columns; ++j) total += std::exp(double(x[i * columns + j]));
            for (ptrdiff_t j = 0; j < columns; ++j) {
                logs[i * columns + j] = x[i * columns + j] - std::log(total);
                shares[i * columns + j] = std::exp(logs[i * columns + j]);
            }
        }
        kernels::SoftmaxWork work{{rows, columns, 1}, x.data(), nullptr, out.data()};
        kernels::softmax_kernels_of(0)->softmax[dtype](&work, 0, rows);
        compare("softmax", columns, out, shares);
        kernels::softmax_kernels_of(0)->log_softmax[dtype](&work, 0, rows);
        compare("log_softmax", columns, out, logs);
    }

    void layer_norm(ptrdiff_t rows, ptrdiff_t columns) {
        const auto x = numbers(rows * columns, 3), weight = numbers(columns, 4), bias = numbers(columns, 5);
        std::vector<T> out(x.size()), means(rows), inverses(rows);
        std::vector<double> expected(x.size());
        for (ptrdiff_t i = 0; i < rows; ++i) {
            const T* const row = x.data() + i * columns;
            double mean = 0, squares = 0;
            for (ptrdiff_t j = 0; j < columns; ++j) mean += row[j] / double(columns);
            for (ptrdiff_t j = 0; j < columns; ++j) squares += (row[j] - mean) * (row[j] - mean);
            const double inverse = 1 / std::sqrt(squares / columns + 1e-5);
            for (ptrdiff_t j = 0; j < columns; ++j)
                expected[i * columns + j] = (row[j] - mean) * inverse * weight[j] + bias[j];
        }
        kernels::RowNormWork work{};
        work.rows = rows, work.length = columns, work.grain = rows, work.eps = 1e-5;
        work.x = x.data(), work.weight = weight.data(), work.bias = bias.data(), work.out = out.data();
        work.means = means.data(), work.inverses = inverses.data();
        kernels::normalization_kernels_of(0)->rows[dtype](&work, 0, rows);
        compare("layer norm", columns, out, expected);
    }

    void product(ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns) {
        const auto a = numbers(rows * inner, 6), b = numbers(inner * columns, 7);
        std::vector<T> out(rows * columns);
        std::vector<double> expected(out.size());
        for (ptrdiff_t i = 0; i < rows; ++i)
            for (ptrdiff_t k = 0; k < inner; ++k)
                for (ptrdiff_t j = 0; j < columns; ++j)
                    expected[i * columns + j] += double(a[i * inner + k]) * b[k * columns + j];
        kernels::MatrixProduct work{rows,     inner,    columns,    rows,    inner, 1,       columns, 1,
                                    a.data(), b.data(), out.data(), nullptr, false, nullptr, nullptr};
        const ptrdiff_t width = kernels::panel_bytes / sizeof(T);
        kernels::products_kernels_of(0)->whole[dtype](&work, 0, (columns + width - 1) / width);
        compare("product", inner, out, expected, inner);
    }

    void few_outputs(ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns) {
        const auto x = numbers(rows * inner, 8), weight = numbers(columns * inner, 9), bias = numbers(columns, 10);
        std::vector<T> out(rows * columns);
        std::vector<double> expected(out.size());
        for (ptrdiff_t i = 0; i < rows; ++i)
            for (ptrdiff_t j = 0; j < columns; ++j) {
                double& total = expected[i * columns + j] = bias[j];
                for (ptrdiff_t k = 0; k < inner; ++k) total += double(x[i * inner + k]) * weight[j * inner + k];
            }
        kernels::ThinMap work{rows, inner, columns, x.data(), weight.data(), bias.data(), out.data(), false};
        kernels::affine_kernels_of(0)->few_outputs[dtype](
            &work, 0, (rows + kernels::rows_of_few_outputs - 1) / kernels::rows_of_few_outputs);
        compare("linear map of few outputs", inner, out, expected, inner);
    }

    int all() {
        for (const ptrdiff_t n : {1, 3, 4, 7, 15, 16, 17, 33, 100, 1024, 1031}) {
            exponentials(n);
            softmax(3, n);
            layer_norm(3, n);
            product(5, n, 19);
            product(n, 6, 35);
            few_outputs(5, n, 3);
        }
        return wrong;
    }
};

int main() {
    const int wrong = Check<float>().all() + Check<double>().all();
    std::printf("%d wrong\n", wrong);
    return wrong != 0;
}
